"""Is every number of the frozen window evidence what the retained losses give?

From the frozen arrays alone, the verifier draws the documents again from the lengths, computes every score, contrast,
bootstrap interval and position part by other code, and compares them with the JSON value by value, bit for bit. Losses
are counted in units of 2^-30 of a nat, so that sums are integers. Position bins must add up to the difference of their
window within the tolerance that the evidence states. The settings that decide the contrasts, and the models that were
scored, are compared with the protocols and the checkpoint checks where those exist. Only the hash of the array binds
raw bytes.

    python research/source_windows/verify_window_evidence.py [--study NAME ...] [--root DIR]

Reads   NAME_{development,confirmation}.json beside this script and their .npy files; protocols/evaluation_NAME.json,
        research/confirmation/protocol_NAME.json and research/matched_training/checkpoints_NAME.json, where they exist
Writes  nothing
Needs   NumPy
About   one second a file

The script prints one line for each part, with the first value that differs. Exit 1: one differs.
"""

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
    parser,
    read_json_if_there,
    run_script,
    sha256_bytes,
)
from research.source_windows.reference_windows import ReferenceWindows

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "research/source_windows"
NAMES = ("lengths", "windows", "counts", "nats")

# -------------------------------------------------------------------------------------------- arrays


def read_arrays(checks, path, found):
    """Read the four arrays that the evidence names and check their digests; InputError when one is missing."""
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
    """Check shapes, totals, and that bins add up to their window; return whether the shapes allow more checks."""
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
    """Return (strata, windows as a list of rows, documents without text) as the lengths and the seed give them."""
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
    """Check that documents, strata and windows are what the seed draws from the lengths."""
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


def check_numbers(checks, found, reference):
    """Compare scores, cells and position parts value by value."""
    for part, rows in (("scores", reference.scores()), ("cells", reference.cells())):
        checks.equal(part, found[part], rows, f"{part}: {len(rows)} derived, equal")
    number = len(found["contrast_strata"]) * len(reference.pairs)
    development = found["population"] == "development"
    status = {"number": number, "status": "exploratory" if development else "predeclared"}
    checks.expect(found["contrasts"] == status, f"contrasts: {number}, {status['status']}")
    parts = found["position_parts"]
    if not development:
        checks.expect(parts is None, "position parts: none, because only development has them")
        return
    rows = reference.position_parts()
    largest = max((row["error"] for row in rows), default=0.0)
    checks.equal("position parts", {key: parts[key] for key in ("status", "largest_error", "rows")},
                 {"status": "post hoc", "largest_error": largest, "rows": rows},
                 f"position parts: {len(rows)} derived, equal")
    checks.expect(largest <= parts["tolerance"] <= 1e-7, f"position parts: add up within {largest:.1e}")


def check_labels(checks, found):
    """Check that every run, and every cell of one, is named by its condition and seed."""
    labelled = [*found["runs"], *found["cells"]]
    wrong = sorted({row["run"] for row in labelled if row["run"] != f"{row['condition']}_s{row['seed']}"})
    checks.expect(not wrong, f"runs whose name is not their condition and seed: {wrong or 'none'}")


def check_scoring(checks, found, windows):
    """Check that all models saw the selected inputs and targets, and that other padding changed no loss."""
    same = [entry["run"] for entry in found["scoring"]] == [run["run"] for run in found["runs"]]
    seen = {entry["fingerprint"] for entry in found["scoring"]}
    checks.expect(same and seen == {found["fingerprint"]}, f"scoring: all runs saw inputs {found['fingerprint'][:16]}")
    padding = [entry["padding"] for entry in found["scoring"]]
    tried, padded = sum(p["windows_checked"] for p in padding), bool((windows[:, 5] < found["context"]).any())
    checks.expect(all(p["largest_difference"] == 0 and (p["windows_checked"] > 0) == padded for p in padding),
                  f"scoring: other padding changed no loss of {tried:,} windows")


# ---------------------------------------------------------------------------------- protocol, models


def check_protocol(checks, found, evaluation, where):
    """Compare the settings that decide documents and contrasts with the protocol."""
    section = evaluation["source_windows"]
    expected = {key: section[key] for key in ("bins", "bootstrap", "contrast_strata", "per_stratum")}
    expected |= section["populations"][found["population"]] | {"edges": section["strata"]}
    stated = {key: found[key] for key in expected if key != "edges"}
    checks.equal(where, {**stated, "edges": [s["up_to"] for s in found["strata"][:-1]]}, expected,
                 f"{where}: the evidence has its documents, seed, strata, bins and contrasts")


def check_sources(checks, found, root):
    """Compare with the study's protocol, a confirmation's frozen one, and the checked models, where they exist."""
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
        checks.expect(scored == weights, f"models: {len(scored)} scored, as in checkpoints_{study}.json")
    if checked and (sealed or not confirmation):
        seals = {"protocol": sealed["sha256"], "checkpoints": checked["sha256"]} if confirmation else None
        checks.expect(all(entry["seals"] == seals for entry in found["scoring"]), "seals: those of protocol and checks"
                      if confirmation else "seals: none, because development needs no gate")


def verify(checks, path, root):
    """Run all checks of one evidence file."""
    data = path.read_bytes()
    found = parse_json(data, path)
    checks.expect(data == canonical_json(found), f"{path.name}: canonical JSON, {len(data):,} bytes")
    with checks.attempt(path.name):
        lengths, windows, counts, nats = read_arrays(checks, path, found)
        if check_arrays(checks, found, windows, counts, nats):
            check_selection(checks, found, lengths, windows)
            check_labels(checks, found)
            check_scoring(checks, found, windows)
            check_numbers(checks, found, ReferenceWindows(found, windows, counts, nats))
            check_sources(checks, found, root)


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", nargs="+", metavar="NAME", help="studies to check (default: all that are frozen)")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    options, checks = arguments.parse_args(argv), Checks()
    folder = options.root / QUESTION
    for name in options.study or ["*"]:
        frozen = [path for kind in ("development", "confirmation") for path in folder.glob(f"{name}_{kind}.json")]
        if not frozen:
            raise InputError(f"{folder}: no frozen windows of study {name}")
        for path in sorted(frozen):
            verify(checks, path, options.root)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
