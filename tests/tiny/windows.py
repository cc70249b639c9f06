"""The six tiny runs, trained for a few updates in this process, and their evaluation protocol, below a root."""

import sys
from pathlib import Path

import pytest
import torch

from evidence import write_json
from research.saved_runs import own_trainer
from tiny import corpus as tiny_corpus
from tiny import runs as tiny_runs

EVALUATION = {
    "source_windows": {
        "strata": [8, 16, tiny_corpus.CONTEXT + 1, 50, 80, 5000], "bins": [4, 16], "per_stratum": 5,
        "contrast_strata": ["34-50", "51-80"], "bootstrap": {"replicates": 200, "seed": 3},
        "populations": {"development": {"documents": [0, 45], "seed": 1},
                        "confirmation": {"documents": [45, 60], "seed": 2}},
    },
    "prefix_ranking": {"prefixes": [tiny_corpus.CONTEXT * rows for rows in (3, 12)], "subsets": 50, "seed": 4},
}


def build(root):
    """A root with protocols/, data/tiny and the finished runs/tiny; returns it."""
    runs = tiny_runs.build(root, tiny_corpus.protocol(updates=8))
    write_json(root / "protocols/evaluation_tiny.json", EVALUATION)
    deterministic, threads = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    for run in sorted(path.parent for path in Path(runs).glob("*/config.json")):
        with pytest.MonkeyPatch.context() as patch:
            trainer = own_trainer(run)
            patch.syspath_prepend(run)
            sys.modules.pop("loader", None)
            trainer.run(run / "config.json", torch.device("cpu"))
    sys.modules.pop("loader")
    torch.use_deterministic_algorithms(deterministic)
    torch.set_num_threads(threads)
    return root
