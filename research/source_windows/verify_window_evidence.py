"""Is every number of the frozen window evidence what the retained losses give?

From the frozen arrays alone: documents are drawn again from the lengths, every score, contrast, bootstrap interval
and position part is computed again by other code, and compared with the JSON value by value, bit for bit; losses are
counted in units of 2^-30 of a nat, so that sums are integers. Position bins must add up to their window's difference
within the tolerance that the evidence states. Nothing else of the repository is needed; what decides the contrasts, and
which models were scored, is also compared with the protocols and checkpoint checks where those are there. Raw bytes are
bound by the array's hash alone.

    verify_window_evidence.py [FILE.json ...] [--root DIR]

Reads   NAME_{development,confirmation}.json beside this script, or the files named, and their .npy beside them; below
        --root protocols/evaluation_NAME.json, research/confirmation/protocol_NAME.json and
        research/matched_training/checkpoints_NAME.json, each if it is there
Writes  nothing
Needs   NumPy; rebuilt_windows.py beside this script, evidence.py there or two folders up. About a second a file

A line a part, with its first value that differs. Exit 1: one differs.
"""

import argparse
import io
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from evidence import (
    Checks,
    InputError,
    canonical_json,
    parse_json,
    read_json_if_there,
    run_script,
    sha256_bytes,
)
from research.source_windows.rebuilt_windows import Rebuilt

HERE = Path(__file__).resolve().parent

NAMES = ("lengths", "windows", "counts", "nats")

# -------------------------------------------------------------------------------------------- arrays


def read_arrays(checks, path, found):
    """The four arrays that the evidence names, their digests checked; InputError when one is missing."""
    arrays = []
    for name in NAMES:
        file = f"{path.stem}_{name}.npy"
        if file not in found["files"] or not path.with_name(file).exists():
            raise InputError(f"{path.with_name(file)}: missing, or not among the evidence's files")
        data = path.with_name(file).read_bytes()
        digest = sha256_bytes(data)
        checks.expect(digest == found["files"][file], f"{file}: SHA-256 {digest[:16]}, {len(data):,} bytes")
        arrays.append(np.load(io.BytesIO(data), allow_pickle=False))
    return arrays


def check_arrays(checks, found, windows, counts, nats):
    """Shapes, totals, and that every window's bins add up to the window; whether the shapes allow more checks."""
    bins = len(found["bins"]) + 1
    shapes = [(found["windows"], 6), (found["windows"], bins, 3), (len(found["runs"]), found["windows"], bins + 1)]
    shaped = [array.shape for array in (windows, counts, nats)] == shapes
    checks.expect(shaped, f"arrays: {found['windows']:,} windows, {bins} bins, {len(found['runs'])} runs")
    if not shaped:
        return False
    edges = np.array([0, *found["bins"], found["context"]])
    targets = np.clip(windows[:, 5, None] - edges[:-1], 0, np.diff(edges))
    totals = counts.sum(axis=(0, 1)).tolist()
    checks.expect(totals[::2] == [found["supplied_bytes"], found["targets"]] and (counts >= 0).all() and
                  np.array_equal(counts[:, :, 2], targets),
                  f"counts: {totals[2]:,} targets, every text token in its bin; {totals[0]:,} supplied bytes")
    apart = float(np.abs(nats[:, :, :-1].sum(axis=2) - nats[:, :, -1]).max())
    checks.expect(np.isfinite(nats).all() and (nats >= 0).all() and apart < 1e-7,
                  f"losses: bins differ from their window by at most {apart:.1e} nats")
    return True


# ----------------------------------------------------------------------------------------- selection


def draw_again(found, lengths):
    """(strata, windows as a list of rows, documents without text) that the lengths and the seed give."""
    first, last = found["documents"]
    edges, excluded = [s["up_to"] for s in found["strata"][:-1]], set(found["excluded"])
    members, empty = [[] for _ in range(len(edges) + 1)], 0
    for document, length in zip(range(first, last), lengths.tolist()):
        if document in excluded:
            continue
        if length < 2:
            empty += 1
        else:
            members[sum(length > edge for edge in edges)].append(document)
    strata, chosen = [], []
    for number, documents in enumerate(members):
        keys = np.random.PCG64([found["seed"], number]).random_raw(len(documents)).tolist()
        drawn = sorted(document for _, document in sorted(zip(keys, documents))[: found["per_stratum"]])
        strata.append({"over": [0, *edges][number], "up_to": [*edges, None][number], "eligible": len(documents),
                       "sources": len(drawn), "census": bool(drawn) and len(drawn) == len(documents)})
        chosen += [(document, int(lengths[document - first]), number) for document in drawn]
    context = found["context"]
    rows = [[*source, 0, 0, min(source[1] - 1, context)] for source in chosen]
    rows += [[*source, 1, source[1] - 1 - context, context] for source in chosen if source[1] > context + 1]
    return strata, rows, empty


def check_selection(checks, found, lengths, windows):
    """Whether documents, strata and windows are what the seed draws from the lengths."""
    strata, rows, empty = draw_again(found, lengths)
    same = [[*map(int, row)] for row in windows] == rows
    wrong = next((i for i, (a, b) in enumerate(zip(windows.tolist(), rows)) if a != b), min(len(windows), len(rows)))
    checks.expect(same, f"selection: {len(rows):,} windows drawn again" if same else
                  f"selection: window {wrong} differs; {len(windows):,} retained, {len(rows):,} drawn")
    sources, (first, last) = sum(s["sources"] for s in strata), found["documents"]
    expected = {"strata": strata, "sources": sources, "windows": len(rows), "without_text": empty}
    checks.equal("strata", {key: found[key] for key in expected}, expected, f"strata: {sources:,} documents")
    checks.equal("documents", last - first, len(lengths))


# ------------------------------------------------------------------------------------------ numbers


def check_numbers(checks, found, rebuilt):
    """Scores, cells and position parts, value by value."""
    for part, rows in (("scores", rebuilt.scores()), ("cells", rebuilt.cells())):
        checks.equal(part, found[part], rows, f"{part}: {len(rows)} rebuilt, equal")
    number = len(found["contrast_strata"]) * len(rebuilt.pairs)
    development = found["population"] == "development"
    status = {"number": number, "status": "exploratory" if development else "predeclared"}
    checks.expect(found["contrasts"] == status, f"contrasts: {number}, {status['status']}")
    parts = found["position_parts"]
    if not development:
        checks.expect(parts is None, "position parts: development only")
        return
    rows = rebuilt.position_parts()
    largest = max((row["error"] for row in rows), default=0.0)
    checks.equal("position parts", {key: parts[key] for key in ("status", "largest_error", "rows")},
                 {"status": "post hoc", "largest_error": largest, "rows": rows},
                 f"position parts: {len(rows)} rebuilt, equal")
    checks.expect(largest <= parts["tolerance"] <= 1e-7, f"position parts: add up within {largest:.1e}")


def check_labels(checks, found):
    """Every run, and every cell of one, is named by its condition and seed."""
    labelled = [*found["runs"], *found["cells"]]
    wrong = sorted({row["run"] for row in labelled if row["run"] != f"{row['condition']}_s{row['seed']}"})
    checks.expect(not wrong, f"runs named otherwise than by condition and seed: {wrong or 'none'}")


def check_scoring(checks, found, windows):
    """That all models saw the selected inputs and targets, and padding was tried and changed nothing."""
    same = [entry["run"] for entry in found["scoring"]] == [run["run"] for run in found["runs"]]
    seen = {entry["fingerprint"] for entry in found["scoring"]}
    checks.expect(same and seen == {found["fingerprint"]}, f"scoring: all runs saw inputs {found['fingerprint'][:16]}")
    padding = [entry["padding"] for entry in found["scoring"]]
    tried, padded = sum(p["windows_checked"] for p in padding), bool((windows[:, 5] < found["context"]).any())
    checks.expect(all(p["largest_difference"] == 0 and (p["windows_checked"] > 0) == padded for p in padding),
                  f"scoring: padding changed no loss of {tried:,} windows")


# ---------------------------------------------------------------------------------- protocol, models


def check_protocol(checks, found, evaluation, where):
    """What decides documents and contrasts is what the protocol says."""
    section = evaluation["source_windows"]
    expected = {key: section[key] for key in ("bins", "bootstrap", "contrast_strata", "per_stratum")}
    expected |= section["populations"][found["population"]] | {"edges": section["strata"]}
    stated = {key: found[key] for key in expected if key != "edges"}
    checks.equal(where, {**stated, "edges": [s["up_to"] for s in found["strata"][:-1]]}, expected,
                 f"{where}: documents, seed, strata, bins and contrasts are its own")


def check_sources(checks, found, root):
    """The study's protocol, the sealed one of a confirmation, and the checked models, where they are there."""
    study, confirmation = found["study"], found["population"] == "confirmation"
    if evaluation := read_json_if_there(root / f"protocols/evaluation_{study}.json"):
        check_protocol(checks, found, evaluation, f"evaluation_{study}.json")
    sealed = read_json_if_there(root / f"research/confirmation/protocol_{study}.json") if confirmation else None
    checked = read_json_if_there(root / f"research/matched_training/checkpoints_{study}.json")
    if sealed:
        check_protocol(checks, found, sealed["content"]["evaluation"], f"protocol_{study}.json")
        checks.equal("excluded", found["excluded"], sealed["content"]["excluded"],
                     f"excluded: {len(found['excluded'])} documents")
    if checked:
        weights = {name: entry["files"]["model.safetensors"] for name, entry in checked["content"]["runs"].items()}
        scored = {entry["run"]: entry["weights"] for entry in found["scoring"]}
        checks.expect(scored == weights, f"models: {len(scored)} scored, those of checkpoints_{study}.json")
    if checked and (sealed or not confirmation):
        seals = {"protocol": sealed["sha256"], "checkpoints": checked["sha256"]} if confirmation else None
        checks.expect(all(entry["seals"] == seals for entry in found["scoring"]), "seals: those of protocol and checks"
                      if confirmation else "seals: none, development needs no gate")


def verify(checks, path, root):
    """All checks of one evidence file."""
    data = path.read_bytes()
    found = parse_json(data, path)
    checks.expect(data == canonical_json(found), f"{path.name}: canonical JSON, {len(data):,} bytes")
    with checks.attempt(path.name):
        lengths, windows, counts, nats = read_arrays(checks, path, found)
        if check_arrays(checks, found, windows, counts, nats):
            check_selection(checks, found, lengths, windows)
            check_labels(checks, found)
            check_scoring(checks, found, windows)
            check_numbers(checks, found, Rebuilt(found, windows, counts, nats))
            check_sources(checks, found, root)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="default: all evidence beside this script")
    parser.add_argument("--root", type=Path, default=HERE.parents[1], metavar="DIR", help="default: two folders up")
    options, checks = parser.parse_args(argv), Checks()
    beside = sorted([*HERE.glob("*_development.json"), *HERE.glob("*_confirmation.json")])
    for path in options.files or beside:
        verify(checks, path, options.root)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
