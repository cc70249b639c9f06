"""Are the frozen rankings, reversals and subset intervals what the retained row statistics give?

From the frozen arrays alone, other code computes every score of the whole population and of each prefix, every ranking,
reversal, contrast and random-subset interval again, and compares them with the JSON value by value, bit for bit. Losses
are counted in units of 2^-30 of a nat, so that sums are integers. The official scores must agree within 4e-9. The
arrays must be, byte for byte, the row statistics whose SHA-256 each run names, and each run must be named by its
condition and seed. Protocols and frozen results are compared where they exist.

    python research/prefix_ranking/verify_evaluation_summary.py [--study NAME ...] [--root DIR]

Reads   NAME.json and NAME_{counts,nats}.npy beside this script; protocols/{NAME,evaluation_NAME}.json and
        research/matched_training/NAME.json, where they exist
Writes  nothing
Needs   NumPy
About   one second a study

The script prints one line for each part, with the first value that differs. Exit 1: one differs.
"""

import io
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from evidence import (
    Checks,
    InputError,
    canonical_json,
    parse_json,
    parser,
    read_json_if_there,
    run_script,
    sha256_bytes,
)

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "research/prefix_ranking"
LARGEST_TOLERANCE = 4e-9


def read_array(checks, path, found, name):
    """Read an array that the evidence names and check its digest; InputError when it is missing."""
    file = f"{path.stem}_{name}.npy"
    if file not in found["files"] or not path.with_name(file).exists():
        raise InputError(f"{path.with_name(file)}: missing, or not among the evidence's files")
    data = path.with_name(file).read_bytes()
    digest = sha256_bytes(data)
    checks.expect(digest == found["files"][file], f"{file}: SHA-256 {digest[:16]}, {len(data):,} bytes")
    return np.load(io.BytesIO(data), allow_pickle=False)


def score(unit_sum, byte_sum):
    """Return the bits per byte of integer sums, or of int64 arrays of them."""
    return unit_sum / 2**30 / (math.log(2) * byte_sum)


def central_95(values):
    """Return [2.5 %, 97.5 %] of the values, interpolated between order statistics."""
    ordered, bounds = sorted(values), []
    for numerator in (1, 39):
        place, rest = divmod((len(ordered) - 1) * numerator, 40)
        above = ordered[min(place + 1, len(ordered) - 1)]
        bounds.append(ordered[place] + (above - ordered[place]) * (rest / 40))
    return bounds


class Population:
    """Row statistics of all checkpoints: units int64 (checkpoints, rows), bytes int64 (rows,)."""

    def __init__(self, found, counts, nats):
        self.names, self.runs = [run["run"] for run in found["runs"]], found["runs"]
        self.units, self.bytes = np.rint(nats * 2.0**30).astype(np.int64), counts[:, 0]
        self.subsets, self.seed = found["subsets"], found["seed"]

    def scores(self, rows):
        """Score the rows that a slice or numbers select: {checkpoint: bits per byte}."""
        size = int(self.bytes[rows].sum())
        return {name: score(sum(of_run[rows].tolist()), size) for name, of_run in zip(self.names, self.units)}

    def orders(self):
        """Draw the random orders of all rows whose beginnings are the subsets: int64 (subsets, rows)."""
        rows = len(self.bytes)
        keys = [np.random.PCG64([self.seed, subset]).random_raw(rows) for subset in range(self.subsets)]
        return np.stack([np.lexsort((np.arange(rows), of_subset)) for of_subset in keys])

    def reversals(self, full, prefix):
        """Return the pairs that the two scores order differently."""
        pairs = [(a, b) for place, a in enumerate(self.names) for b in self.names[place + 1 :]]
        return [[a, b] for a, b in pairs if full[a] < full[b] and prefix[a] > prefix[b]
                or full[a] > full[b] and prefix[a] < prefix[b]]

    def references(self):
        """Pair each other checkpoint with its same-seed baseline, where one exists."""
        baselines = {run["seed"]: run["run"] for run in reversed(self.runs) if run["condition"] == "baseline"}
        return [(run["run"], baselines[run["seed"]]) for run in self.runs
                if run["condition"] != "baseline" and run["seed"] in baselines]

    def contrasts(self, full, prefix, rows, orders):
        """Return the contrasts of one prefix, without its number of targets."""
        picked, found = orders[:, :rows], []
        sizes = self.bytes[picked].sum(axis=1)
        drawn = dict(zip(self.names, (score(of_run[picked].sum(axis=1), sizes) for of_run in self.units)))
        for name, base in self.references():
            bounds, value = central_95((drawn[name] - drawn[base]).tolist()), prefix[name] - prefix[base]
            found.append({"checkpoint": name, "reference": base, "prefix": value, "full": full[name] - full[base],
                          "subsets_95": bounds, "outside": value < bounds[0] or value > bounds[1]})
        return found


def check_numbers(checks, found, population):
    """Compare scores, rankings, reversals and contrasts value by value."""
    full, orders = population.scores(slice(None)), population.orders()
    apart = max(abs(full[name] - found["official"][name]) for name in full)
    checks.expect(apart == found["largest_difference"] and apart <= found["tolerance"] <= LARGEST_TOLERANCE,
                  f"official scores: reproduced within {apart:.1e} bits per byte")
    row_targets = found["targets"] // found["rows"]
    expected = {"scores": full, "ranking": sorted(full, key=full.get), "pairs": math.comb(len(full), 2),
                "targets": found["rows"] * row_targets}
    checks.equal("population", {key: found[key] for key in expected}, expected,
                 f"population: {len(full)} checkpoints ranked")
    contrasts = []
    for entry in found["prefixes"]:
        rows = entry["rows"]
        scores, targets = population.scores(slice(rows)), rows * row_targets
        expected = {"rows": rows, "targets": targets, "scores": scores, "ranking": sorted(scores, key=scores.get),
                    "reversals": population.reversals(full, scores)}
        where = f"first {targets:,} targets"
        checks.equal(where, entry, expected, f"{where}: {len(expected['reversals'])} reversals")
        contrasts += [{**contrast, "targets": targets} for contrast in population.contrasts(full, scores, rows, orders)]
    outside = sum(contrast["outside"] for contrast in contrasts)
    checks.equal("contrasts", found["contrasts"], contrasts, f"contrasts: {len(contrasts)} derived, {outside} outside")


def check_labels(checks, found):
    """Check that every run is named by its condition and seed, as its directory was."""
    wrong = [run["run"] for run in found["runs"] if run["run"] != f"{run['condition']}_s{run['seed']}"]
    checks.expect(not wrong, f"runs whose name is not their condition and seed: {wrong or 'none'}")


def check_rows(checks, found, counts, nats):
    """Check that nats and counts together are the evaluation_rows.npy of each run."""
    for run, of_run in zip(found["runs"], nats):
        file = io.BytesIO()
        np.save(file, np.column_stack([of_run, counts]).astype(np.float64))
        digest = sha256_bytes(file.getvalue())
        checks.expect(digest == run["rows"], f"{run['run']}: row statistics, SHA-256 {digest[:16]}")


def check_sources(checks, found, root):
    """Compare settings with the protocols, and scores and row statistics with the frozen results, where they exist."""
    study = found["study"]
    protocol, evaluation = (read_json_if_there(root / f"protocols/{name}.json")
                            for name in (study, f"evaluation_{study}"))
    if protocol and evaluation:
        context, section = protocol["packing"]["context"], evaluation["prefix_ranking"]
        stated = {"prefixes": [entry["targets"] for entry in found["prefixes"]], "seed": found["seed"],
                  "subsets": found["subsets"], "targets": found["targets"]}
        checks.equal("protocol", stated, {**section, "targets": found["rows"] * context},
                     f"protocol: prefixes, seed, subsets, rows of {context} targets")
    if results := read_json_if_there(root / f"research/matched_training/{study}.json"):
        own = [run for run in found["runs"] if run["run"] in results["runs"]]
        stated = {run["run"]: [found["official"][run["run"]], run["rows"], found["evaluation_plan"]] for run in own}
        frozen = {name: [result["score"]["bits_per_byte"], result["digests"]["evaluation_rows.npy"],
                         result["digests"]["evaluation_plan"]] for name, result in results["runs"].items()}
        checks.equal("results", stated, frozen, f"results: scores and rows of {len(frozen)} frozen runs")


def verify(checks, path, root):
    """Run all checks of one evidence file."""
    data = path.read_bytes()
    found = parse_json(data, path)
    checks.expect(data == canonical_json(found), f"{path.name}: canonical JSON, {len(data):,} bytes")
    with checks.attempt(path.name):
        counts, nats = (read_array(checks, path, found, name) for name in ("counts", "nats"))
        shaped = counts.shape == (found["rows"], 3) and nats.shape == (len(found["runs"]), found["rows"])
        checks.expect(shaped and np.isfinite(nats).all() and (counts >= 0).all(),
                      f"arrays: {len(nats)} checkpoints, {len(counts):,} rows")
        check_labels(checks, found)
        if shaped:
            check_rows(checks, found, counts, nats)
            check_numbers(checks, found, Population(found, counts, nats))
            check_sources(checks, found, root)


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", nargs="+", metavar="NAME", help="studies to check (default: all that are frozen)")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    options, checks = arguments.parse_args(argv), Checks()
    folder = options.root / QUESTION
    frozen = sorted(folder.glob("*.json"))
    for path in [folder / f"{name}.json" for name in options.study] if options.study else frozen:
        verify(checks, path, options.root)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
