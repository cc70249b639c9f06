"""Generated blocks of this question's page (research/pages.py writes them from frozen evidence)."""

import numpy as np
from tabulate import tabulate

from evidence import read_json
from research.matched_training.report_tables import score_table
from research.matched_training.score_intervals import REPLICATES, difference_intervals

FOLDER = "research/matched_training"


def results(root, study):
    """Return the frozen results of a study."""
    return read_json(root / f"{FOLDER}/{study}.json")


def intervals(root, study):
    """Return the intervals of a study's differences, from the row statistics that prefix_ranking freezes."""
    folder = root / "research/prefix_ranking"
    runs = [entry["run"] for entry in read_json(folder / f"{study}.json")["runs"]]
    nats, counts = (np.load(folder / f"{study}_{name}.npy") for name in ("nats", "counts"))
    return difference_intervals(dict(zip(runs, nats, strict=True)), counts[:, 0])


def scores(study):
    """Return the block function of a study's table of scores."""
    return lambda root: score_table(results(root, study), intervals(root, study))


def replicates(root):
    """The number of bootstrap replicates."""
    return f"{REPLICATES:,}"


def finding(root):
    """How many differences are penalties, which of them have an interval above 0, and the spread between seeds."""
    told = []
    for study in ("demo", "wheels"):
        found, bounds = results(root, study), intervals(root, study)
        differences = found["bits_per_byte_minus_baseline"]
        worse = sum(value > 0 for value in differences.values())
        clear = sum(interval is not None and interval[0] > 0 for interval, _ in bounds.values())
        bits = [run["score"]["bits_per_byte"] for run in found["runs"].values() if run["condition"] == "baseline"]
        told.append(f"* In `{study}`, {worse} of {len(differences)} runs with an intervention score worse than the "
                    f"baseline of their seed, and {clear} of the {len(bounds)} intervals lie above 0. The two "
                    f"baselines differ by {max(bits) - min(bits):.5f} bits per byte.")
    return "\n".join(told)


def segmented(root):
    """How few documents the segmented loader starts, and how many of these are short enough for a row."""
    told = []
    for study in ("demo", "wheels"):
        record = read_json(root / f"research/source_exclusion/{study}.json")["training"]["segmented"]
        started = record["documents"]["started"]
        short = started - record["protected"]["started"]
        told.append(f"{started:,} documents in a run of `{study}`, {short:,} of them short enough for one row")
    return f"The segmented loader starts {', and '.join(told)}."


def scored_stream(root):
    """How many documents longer than a row the official score's stream starts."""
    told = []
    for study in ("demo", "wheels"):
        longer = read_json(root / f"research/source_exclusion/{study}.json")["evaluation"]["over_capacity"]
        told.append(f"{longer['started'] or 'none'} of {longer['arrived']:,} in `{study}`")
    return ("Of the documents longer than a row that arrive in the official score's stream, it starts "
            f"{' and '.join(told)}.")


def sweep(root):
    """One row for each candidate of the sweep."""
    rows = [[f"{record['context']:,}", record["width"], record["microbatch"], f"{record['updates']:,}",
             f"{record['targets']:,}", f"{record['targets_per_second']:,.0f}", f"{record['bits_per_byte']:.4f}"]
            for record in read_json(root / f"{FOLDER}/sweep_wheels.json")["candidates"]]
    header = ["context", "width", "rows an update", "updates", "targets", "targets a second", "bits per byte"]
    return tabulate(rows, header, "pipe", disable_numparse=True, colalign=["right"] * len(header))


def sweep_loops(root):
    """The shortest and the longest loop of the sweep."""
    seconds = [record["loop_seconds"] for record in read_json(root / f"{FOLDER}/sweep_wheels.json")["candidates"]]
    return f"{min(seconds):.0f} to {max(seconds):.0f} seconds"


def long_documents(root):
    """How many documents are longer than the rows of two contexts."""
    histogram = read_json(root / "research/source_exclusion/length_histogram_wheels.json")
    longer = {row: sum(count for length, count in histogram["histogram"] if length > row) for row in (513, 1025)}
    return (f"{longer[513]:,} of the {histogram['documents']:,} documents are longer than a row of 513 tokens, "
            f"{longer[1025]:,} are longer than one of 1,025")


def budget(root):
    """Updates and targets of a run of `wheels`."""
    run = next(iter(results(root, "wheels")["runs"].values()))
    return f"{run['updates']:,} updates, which are {run['targets']:,} targets a run"


def paper(root):
    """The differences that the paper reports."""
    reported = read_json(root / "research/published_tables/version_1.json")["groups"]["training"]["values"]
    told = ", ".join(f"{float(values['bpb']) - float(reported[f'baseline_{run[-3:]}']['bpb']):+.5f} for `{run}`"
                     for run, values in sorted(reported.items()) if not run.startswith("baseline"))
    return f"The paper reports for its own model, corpus and budget: {told}."


BLOCKS = {f"matched_training.{function.__name__}": function for function in (
    replicates, finding, segmented, scored_stream, sweep, sweep_loops, long_documents, budget, paper)}
BLOCKS |= {f"matched_training.scores_{study}": scores(study) for study in ("demo", "wheels")}
