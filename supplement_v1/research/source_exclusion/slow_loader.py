"""A plain text-to-rows loader with no cleverness at all, which match_stream.py compares the planners with.

Written from the rule in words; shares no code with loaders/ or corpora/.
"""

import base64
from dataclasses import dataclass

from evidence import read_json


@dataclass
class Held:
    """A buffered entry: token ids with their BOS, the arrival they belong to, and where in its text they begin."""

    arrival: int
    start: int
    ids: list


def read_encoding(folder):
    """(tiktoken encoding, BOS id) of a tokenizer folder."""
    import tiktoken

    settings = read_json(folder / "tokenizer.json")
    pattern, specials = settings["pattern"], settings["specials"]
    lines = (folder / "ranks.txt").read_text(encoding="ascii").splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}
    encoding = tiktoken.Encoding("slow", pat_str=pattern, mergeable_ranks=ranks, special_tokens=specials)
    return encoding, settings["bos"]


def text_batches(shards, column, size):
    """Lists of at most `size` texts, never across a row group, pass after pass without end."""
    import pyarrow.parquet as pq

    while True:
        for shard in shards:
            with pq.ParquetFile(shard) as file:
                for group in range(file.num_row_groups):
                    texts = file.read_row_group(group, columns=[column]).column(column).to_pylist()
                    yield from (texts[at : at + size] for at in range(0, len(texts), size))


class SlowLoader:
    """Rows of `capacity` ids by best fit, else the shortest cropped; `chunk`: cut long documents before they enter.

    `selections` collects (row, arrival, start in the text, ids taken, ids dropped) for every one made.
    """

    def __init__(self, batches, encoding, bos, capacity, buffer_size, chunk=False):
        self.batches, self.encoding, self.bos = batches, encoding, bos
        self.capacity, self.buffer_size, self.chunk = capacity, buffer_size, chunk
        self.buffer, self.arrived, self.selections = [], 0, []

    def refill(self):
        """Take whole batches until enough entries are held."""
        while len(self.buffer) < self.buffer_size:
            for text in next(self.batches):
                ids = self.encoding.encode_ordinary(text)
                step = self.capacity - 1 if self.chunk and len(ids) >= self.capacity else max(len(ids), 1)
                for start in range(0, max(len(ids), 1), step):
                    self.buffer.append(Held(self.arrived, start, [self.bos, *ids[start : start + step]]))
                self.arrived += 1

    def choose(self, space):
        """Place in the buffer of the longest entry that fits, else of the shortest; the earlier one of equals."""
        fitting = shortest = None
        for place, held in enumerate(self.buffer):
            size = len(held.ids)
            if size <= space and (fitting is None or size > len(self.buffer[fitting].ids)):
                fitting = place
            if shortest is None or size < len(self.buffer[shortest].ids):
                shortest = place
        return shortest if fitting is None else fitting

    def row(self, number):
        """The ids of the next row."""
        ids = []
        while len(ids) < self.capacity:
            self.refill()
            space = self.capacity - len(ids)
            held = self.buffer.pop(self.choose(space))
            ids += held.ids[:space]
            self.selections.append((number, held.arrival, held.start, held.ids[:space], held.ids[space:]))
        return ids
