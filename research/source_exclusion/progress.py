"""How far a long audit has come: a bar on a terminal, and a line at every tenth elsewhere."""

import sys
import time

from loaders.accounting import ROW

PATIENCE = 2  # seconds before anything is shown


def watched(rows, label):
    """Return a function that yields the blocks of a plan of `rows` rows and shows on stderr how many are done."""
    def watch(blocks):
        from tqdm import tqdm

        plain, began, tenth = not sys.stderr.isatty(), time.monotonic(), 0
        with tqdm(total=rows, desc=label, unit=" rows", delay=PATIENCE, disable=plain, file=sys.stderr) as bar:
            for block in blocks:
                yield block
                done = int(block[-1, ROW]) + 1
                bar.update(done - bar.n)
                if plain and done * 10 // rows > tenth and time.monotonic() - began > PATIENCE:
                    tenth = done * 10 // rows
                    print(f"{label}: {done:,} of {rows:,} rows", file=sys.stderr, flush=True)
    return watch
