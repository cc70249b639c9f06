"""Generated block of this question's page (research/pages.py writes it from the attributed record)."""

from tabulate import tabulate

from evidence import read_json


def scores(root):
    """The scores of the two runs, as reported."""
    record = read_json(root / "research/independent_replication/record.json")["scores"]
    keys = ("bits_per_byte", "cross_entropy", "perplexity", "loop_seconds", "peak_mib")
    rows = [[f"`{name}`", *(record[name][key] for key in keys)] for name in ("source", "random_crop")]
    rows.append(["difference", record["random_crop_minus_source"], "", "", "", ""])
    header = ["run", "bits per byte", "cross-entropy (nats)", "perplexity", "full loop (s)", "peak (MiB)"]
    return tabulate(rows, header, "pipe", disable_numparse=True, colalign=("left", *["right"] * 5))


BLOCKS = {"independent_replication.scores": scores}
