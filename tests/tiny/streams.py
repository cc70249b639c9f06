"""Small worlds for tests of loaders: document lengths, refill batches, capacities and buffers, drawn or by name."""

import numpy as np
import pytest
from hypothesis import strategies as st

from loaders import best_fit_crop, lossless, random_span, segment_first

LOADERS = {"best_fit_crop": best_fit_crop.LOADER, "random_span": random_span.LOADER,
           "segment_first": segment_first.LOADER, "lossless": lossless.LOADER}
EVERY = pytest.mark.parametrize("policy", LOADERS)
CASE_1B = [9, 30, 14, 20, 6, 5, 12, 3, 25, 4]


@st.composite
def streams(draw, longest=30):
    """A small world: (lengths, settings), whose refill batches cut the lengths."""
    lengths = draw(st.lists(st.integers(1, longest), min_size=1, max_size=14))
    cuts = sorted(draw(st.sets(st.integers(1, len(lengths) - 1)))) if len(lengths) > 1 else []
    refill = np.diff([0, *cuts, len(lengths)]).tolist()
    return lengths, {"refill": refill, "capacity": draw(st.integers(2, 40)), "buffer_size": draw(st.integers(1, 6)),
                     "rows": draw(st.integers(0, 12))}
