"""A plain loader from text to rows, with which match_stream.py compares the planners.

It is written from the rule in words and shares no code with loaders/ or corpora/.
"""

import base64
from dataclasses import dataclass

from evidence import read_json


@dataclass
class Entry:
    """A buffered entry: token ids with their BOS, their arrival, and the place in its text where they start."""

    arrival: int
    start: int
    ids: list


def read_encoding(folder):
    """Return (tiktoken encoding, BOS id) of a tokenizer folder."""
    import tiktoken

    settings = read_json(folder / "tokenizer.json")
    pattern, specials = settings["pattern"], settings["specials"]
    lines = (folder / "ranks.txt").read_text(encoding="ascii").splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}
    encoding = tiktoken.Encoding("slow", pat_str=pattern, mergeable_ranks=ranks, special_tokens=specials)
    return encoding, settings["bos"]


def text_batches(shards, column, size):
    """Yield lists of at most `size` texts, none of them across a row group, pass after pass without end."""
    import pyarrow.parquet as pq

    while True:
        for shard in shards:
            with pq.ParquetFile(shard) as file:
                for group in range(file.num_row_groups):
                    texts = file.read_row_group(group, columns=[column]).column(column).to_pylist()
                    yield from (texts[at : at + size] for at in range(0, len(texts), size))


class SlowLoader:
    """Rows of `capacity` ids: the longest entry that fits, else the shortest one, cropped.

    chunk: cut documents longer than a row before they enter the buffer. `selections` collects (row, arrival, start in
    the text, ids emitted, ids discarded).
    """

    def __init__(self, batches, encoding, bos, capacity, buffer_size, chunk=False):
        self.batches, self.encoding, self.bos = batches, encoding, bos
        self.capacity, self.buffer_size, self.chunk = capacity, buffer_size, chunk
        self.buffer, self.arrived, self.selections = [], 0, []

    def refill(self):
        """Take whole batches until enough entries are buffered."""
        while len(self.buffer) < self.buffer_size:
            for text in next(self.batches):
                ids = self.encoding.encode_ordinary(text)
                step = self.capacity - 1 if self.chunk and len(ids) >= self.capacity else max(len(ids), 1)
                for start in range(0, max(len(ids), 1), step):
                    self.buffer.append(Entry(self.arrived, start, [self.bos, *ids[start : start + step]]))
                self.arrived += 1

    def choose(self, space):
        """Return the place of the longest entry that fits, else of the shortest; of equal ones, the earlier."""
        fitting = shortest = None
        for place, entry in enumerate(self.buffer):
            size = len(entry.ids)
            if size <= space and (fitting is None or size > len(self.buffer[fitting].ids)):
                fitting = place
            if shortest is None or size < len(self.buffer[shortest].ids):
                shortest = place
        return shortest if fitting is None else fitting

    def row(self, number):
        """Return the ids of the next row."""
        ids = []
        while len(ids) < self.capacity:
            self.refill()
            space = self.capacity - len(ids)
            entry = self.buffer.pop(self.choose(space))
            ids += entry.ids[:space]
            self.selections.append((number, entry.arrival, entry.start, entry.ids[:space], entry.ids[space:]))
        return ids
