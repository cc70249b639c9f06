"""Generated blocks of this question's page (research/pages.py writes them from the frozen ledgers)."""

from tabulate import tabulate

from evidence import read_json

STUDIES = ("demo", "wheels")


def _totals(root):
    """The totals of every study, as [(study, totals)]."""
    return [(study, read_json(root / f"research/resources/{study}.json")["totals"]) for study in STUDIES]


def _table(rows, header):
    right = ["right"] * (len(header) - 2)
    return tabulate(rows, header, "pipe", disable_numparse=True, colalign=("left", "left", *right))


def trainings(root):
    """What the trainings cost."""
    rows = [[f"`{study}`", kind, total["number"], f"{total['training_positions']:,}", f"{total['training_flops']:.3e}",
             *(f"{total['seconds'][key]:,.1f}" for key in ("timed", "loop", "run")),
             f"{total['peak_bytes'] / 2**20:,.1f}"]
            for study, totals in _totals(root) for kind, total in totals["trainings"].items()]
    header = ["study", "trainings", "number", "positions", "FLOPs", "timed s", "loop s", "run s", "peak MiB"]
    return _table(rows, header)


def scorings(root):
    """What the scorings cost."""
    rows = [[f"`{study}`", kind, total["number"], f"{total['forward_positions']:,}", f"{total['forward_flops']:.3e}",
             "not recorded" if total["seconds"] is None else f"{total['seconds']:,.1f}"]
            for study, totals in _totals(root) for kind, total in totals["scorings"].items()]
    return _table(rows, ["study", "scorings", "number", "forward positions", "FLOPs", "s"])


def reservations(root):
    """How long the device was reserved, by outcome."""
    rows = [[f"`{study}`", outcome, total["number"], f"{total['seconds']:,.1f}"]
            for study, totals in _totals(root) for outcome, total in totals["reservations"].items()]
    return _table(rows, ["study", "reservations", "number", "s"])


BLOCKS = {"resources.trainings": trainings, "resources.scorings": scorings, "resources.reservations": reservations}
