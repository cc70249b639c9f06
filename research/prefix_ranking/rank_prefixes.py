"""Would a shorter prefix of the official score rank the models differently, and by more than chance?

The script scores every checkpoint on the whole official population and on fixed prefixes of it, from the row statistics
that its run kept; it runs no model. A reversal is a pair of checkpoints that a prefix orders the other way. Each run's
difference from its same-seed baseline on a prefix is compared with the same difference on random subsets of rows of the
prefix's size (paper, section 5.6).

    python research/prefix_ranking/rank_prefixes.py --study NAME [--root DIR] [--also RUN_DIRECTORY ...] [--freeze]

Reads   protocols/NAME.json and protocols/evaluation_NAME.json (section `prefix_ranking`: prefixes in targets, subsets,
        seed); runs/NAME/<run>/{result.json,evaluation_rows.npy}, and the same files of the runs that --also names
Writes  runs/NAME/report/{rankings.json,rankings.png}; with --freeze, beside this script, NAME.json,
        NAME_counts.npy (rows, 3: supplied bytes, raw bytes, targets) and NAME_nats.npy (checkpoints, rows)
Needs   NumPy, matplotlib and tabulate
About   a few seconds

Exit 1: a score is not reproduced within 4e-9 bits per byte.
"""

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from evidence import Checks, InputError, input_list, parser, read_json, require_digest, run_script, write_json
from protocols.schema import read_evaluation
from research.frozen_arrays import digests, freeze, npy_bytes
from research.resampling import bits_per_byte, interval, shuffled, units

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "research/prefix_ranking"
TOLERANCE = 4e-9

# ------------------------------------------------------------------------------------------- inputs


def read_section(path, row_targets, rows):
    """Read (prefixes in rows, subsets, seed) from the protocol's section; InputError names what is wrong."""
    section = read_evaluation(path, "prefix_ranking")
    for targets in section["prefixes"]:
        if targets % row_targets or targets >= rows * row_targets:
            raise InputError(f"{path}: prefix_ranking.prefixes: expected multiples of a row's {row_targets} targets, "
                             f"fewer than the score's {rows * row_targets}; found {targets}")
    return [targets // row_targets for targets in section["prefixes"]], section["subsets"], section["seed"]


def read_checkpoints(directories):
    """Read finished runs as [(name, result, float64 (rows, 4))]; InputError when a file differs from its result."""
    found = []
    for directory in directories:
        result, path = read_json(directory / "result.json"), directory / "evaluation_rows.npy"
        require_digest(path, result["digests"]["evaluation_rows.npy"])
        if directory.name != f"{result['condition']}_s{result['seed']}":
            raise InputError(f"{directory}: expected a generated run directory, named {result['condition']}_s"
                             f"{result['seed']}; found {directory.name}")
        found.append((directory.name, result, np.load(path)))
    if len({name for name, _, _ in found}) < len(found):
        raise InputError(f"two checkpoints share a name: {', '.join(name for name, _, _ in found)}")
    return found


def one_population(checkpoints):
    """Return the counts that all checkpoints share, int64 (rows, 3); InputError names one that scored other rows."""
    first, result, statistics = checkpoints[0]
    counts = statistics[:, 1:].astype(np.int64)
    for name, other, rows in checkpoints:
        if other["digests"]["evaluation_plan"] != result["digests"]["evaluation_plan"] or not np.array_equal(
                rows[:, 1:], counts):
            raise InputError(f"{name}: scored other rows than {first}; only one population can be ranked")
    return counts


# ---------------------------------------------------------------------------------------- rankings


def ranking(names, scores):
    """Return the names from best to worst; equal scores keep the given order."""
    return [names[index] for index in np.argsort(scores, kind="stable")]


def reversals(names, full, prefix):
    """Return the pairs [a, b] that the prefix orders the other way than the whole population."""
    pairs = itertools.combinations(range(len(names)), 2)
    return [[names[a], names[b]] for a, b in pairs if (full[a] - full[b]) * (prefix[a] - prefix[b]) < 0]


def references(checkpoints):
    """Pair the index of each other checkpoint with that of its same-seed baseline, where one exists."""
    conditions = [(result["condition"], result["seed"]) for _, result, _ in checkpoints]
    return [(index, conditions.index(("baseline", seed))) for index, (condition, seed) in enumerate(conditions)
            if condition != "baseline" and ("baseline", seed) in conditions]


def subset_scores(nats, size, prefixes, subsets, seed):
    """Score random subsets of rows, each as large as a prefix: float64 (prefixes, checkpoints, subsets).

    nats: int64 units (checkpoints, rows); size: int64 (rows,). A smaller subset is the beginning of a larger one.
    """
    ends, scores = np.array(prefixes) - 1, np.empty((len(prefixes), len(nats), subsets))
    for subset in range(subsets):
        order = shuffled([seed, subset], len(size))
        scores[:, :, subset] = bits_per_byte(nats[:, order].cumsum(axis=1)[:, ends], size[order].cumsum()[ends]).T
    return scores


def rank(checkpoints, counts, prefixes, subsets, seed, row_targets):
    """Return the evidence without its inputs and files."""
    names = [name for name, _, _ in checkpoints]
    nats, size = units(np.stack([rows[:, 0] for _, _, rows in checkpoints])), counts[:, 0]
    full = bits_per_byte(nats.sum(axis=1), size.sum())
    drawn, entries, contrasts = subset_scores(nats, size, prefixes, subsets, seed), [], []
    for place, rows in enumerate(prefixes):
        scores = bits_per_byte(nats[:, :rows].sum(axis=1), size[:rows].sum())
        entries.append({"rows": rows, "targets": rows * row_targets, "scores": dict(zip(names, scores.tolist())),
                        "ranking": ranking(names, scores), "reversals": reversals(names, full, scores)})
        for one, base in references(checkpoints):
            bounds = interval(drawn[place, one] - drawn[place, base])
            value = float(scores[one] - scores[base])
            contrasts.append({"checkpoint": names[one], "reference": names[base], "targets": rows * row_targets,
                              "prefix": value, "full": float(full[one] - full[base]), "subsets_95": bounds,
                              "outside": not bounds[0] <= value <= bounds[1]})
    official = {name: result["score"]["bits_per_byte"] for name, result, _ in checkpoints}
    rebuilt = dict(zip(names, full.tolist()))
    return {"rows": len(size), "targets": len(size) * row_targets, "subsets": subsets, "seed": seed,
            "tolerance": TOLERANCE, "official": official, "scores": rebuilt, "ranking": ranking(names, full),
            "largest_difference": max(abs(rebuilt[name] - official[name]) for name in names),
            "pairs": len(names) * (len(names) - 1) // 2, "prefixes": entries, "contrasts": contrasts}


# ----------------------------------------------------------------------------------------- results


def finding(evidence):
    """State the result in one sentence."""
    count = sum(len(entry["reversals"]) for entry in evidence["prefixes"])
    outside = sum(contrast["outside"] for contrast in evidence["contrasts"])
    return (f"{count} reversals among {evidence['pairs']} pairs in {len(evidence['prefixes'])} prefixes; {outside} of "
            f"{len(evidence['contrasts'])} contrasts lie outside the central 95 % of random subsets of their size.")


def table(evidence):
    """Format the scores of the whole population and of each prefix as a text table."""
    from tabulate import tabulate

    columns = [entry["scores"] for entry in evidence["prefixes"]]
    rows = [[name, f"{evidence['scores'][name]:.6f}", *(f"{scores[name]:.6f}" for scores in columns)]
            for name in evidence["ranking"]]
    rows.append(["reversals", "", *(len(entry["reversals"]) for entry in evidence["prefixes"])])
    sizes = [f"{entry['targets']:,}" for entry in evidence["prefixes"]]
    return tabulate(rows, ["bits per byte, best first", f"all {evidence['targets']:,}", *sizes], disable_numparse=True,
                    colalign=("left", *["right"] * (len(sizes) + 1)))


def gather(study, root, also):
    """Rank the finished runs of a study and those of `also`: (evidence, {file: bytes of its arrays})."""
    protocol_paths = [root / f"protocols/{prefix}{study}.json" for prefix in ("", "evaluation_")]
    row_targets = read_json(protocol_paths[0])["packing"]["context"]
    finished = sorted(path.parent for path in (root / "runs" / study).glob("*/result.json"))
    if not finished:
        raise InputError(f"{root / 'runs' / study}: no finished run; run `make run-all STUDY={study}` first")
    checkpoints = read_checkpoints([*finished, *also])
    counts = one_population(checkpoints)
    settings = read_section(protocol_paths[1], row_targets, len(counts))
    runs = [{"run": name, "condition": result["condition"], "seed": result["seed"],
             "rows": result["digests"]["evaluation_rows.npy"]} for name, result, _ in checkpoints]
    nats = np.stack([rows[:, 0] for _, _, rows in checkpoints])
    files = {f"{study}_counts.npy": npy_bytes(counts), f"{study}_nats.npy": npy_bytes(nats)}
    evidence = {"study": study, "runs": runs, "inputs": input_list(protocol_paths, root), "files": digests(files),
                "evaluation_plan": checkpoints[0][1]["digests"]["evaluation_plan"],
                **rank(checkpoints, counts, *settings, row_targets)}
    return evidence, files


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", required=True, metavar="NAME", help="a protocol in protocols/")
    arguments.add_argument("--also", nargs="+", type=Path, default=[], metavar="DIR", help="other run directories")
    arguments.add_argument("--freeze", action="store_true", help="write the evidence and its arrays beside this script")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    options = arguments.parse_args(argv)
    evidence, files = gather(options.study, options.root, options.also)

    from research.prefix_ranking.ranking_figure import draw

    print(f"{finding(evidence)}\n\n{table(evidence)}\n")
    out = options.root / "runs" / options.study / "report"
    write_json(out / "rankings.json", evidence)
    figure = draw(evidence, out / "rankings.png")
    if options.freeze:
        freeze(options.root / QUESTION / f"{options.study}.json", evidence, files)
    checks, difference = Checks(), evidence["largest_difference"]
    checks.expect(difference <= TOLERANCE, f"official scores: reproduced within {difference:.1e} bits per byte")
    code = checks.close()
    print(f"results: {out / 'rankings.json'}, {figure}")
    return code


if __name__ == "__main__":
    sys.exit(run_script(main))
