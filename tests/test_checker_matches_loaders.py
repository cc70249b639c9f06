"""The reference packers, which use nothing of loaders/, give the compiled loaders' plans, segment for segment.

Random streams with many equal lengths, documents longer than a row, short batches and several passes.
"""

import numpy as np
import pytest

from loaders import best_fit_crop, lossless
from loaders.accounting import BOS, COUNT, ROW, START
from research.reference_packer import ReferencePacker
from research.theorem.packers import UnsortedPacker

WORLDS, ROWS = 80, 50


def streams():
    """(lengths, settings of the loaders) of WORLDS seeded streams."""
    random = np.random.Generator(np.random.PCG64(7142))
    for _ in range(WORLDS):
        lengths = 1 + random.lognormal(2.5, 1.2, random.integers(1, 80)).astype(np.int64)
        cuts = np.unique(random.integers(0, len(lengths), random.integers(0, 12)))
        refill = np.diff([0, *cuts[cuts > 0], len(lengths)])
        yield lengths, {"capacity": int(random.integers(2, 64)), "buffer_size": int(random.integers(1, 20)),
                        "rows": ROWS, "refill": refill}


def checked_plan(packer, rows):
    """The plan of a checker's packer, int64 (segments, 5)."""
    segments = []
    while packer.row < rows:
        packer.refill()
        segments.append(packer.select()[:5])
    return np.array(segments)


@pytest.mark.parametrize("packer_type", [UnsortedPacker, ReferencePacker])
@pytest.mark.parametrize("loader", [best_fit_crop.LOADER, lossless.LOADER], ids=["best_fit_crop", "lossless"])
def test_every_segment_of_4000_rows_is_the_checkers(loader, packer_type):
    rows = continued = cropped = 0
    for lengths, settings in streams():
        plan = loader.plan(lengths, **settings)
        sizes = {key: settings[key] for key in ("capacity", "buffer_size")}
        packer = packer_type(lengths.tolist(), settings["refill"].tolist(), lossless=loader.continues, **sizes)
        expected = checked_plan(packer, ROWS)
        assert np.array_equal(plan, expected)
        rows += int(plan[-1, ROW]) + 1
        continued += int((plan[:, BOS] == 0).sum())
        cropped += int((plan[:, START] + plan[:, COUNT] + 1 < lengths[plan[:, 1] % len(lengths)]).sum())
    assert rows == WORLDS * ROWS and cropped > 1000 and (continued > 1000 if loader.continues else not continued)
