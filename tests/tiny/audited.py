"""The small study with other settings for its audits: a smaller buffer, more rows, strata and repeated passes."""

from evidence import write_json
from tiny.corpus import ROOT, protocol, write_corpus

SCRIPTS = ROOT / "research/source_exclusion"


def build(root, updates=20):
    """Return (path of the protocol, data folder, runs folder) of the study `tiny` below `root`."""
    tiny = protocol(updates=updates, accumulation=2, microbatch=4)
    tiny["packing"]["buffer_size"] = 9
    tiny["audit"]["strata"] = [4, 16, 33, 64]
    tiny["audit"]["repeated"].update(context=24, passes=3)
    tiny["evaluation"] = {"microbatch": 8, "targets": 32 * 32}
    write_json(root / "tiny.json", tiny)
    write_corpus(root / "data", "tiny")
    return root / "tiny.json", root / "data", root / "runs"
