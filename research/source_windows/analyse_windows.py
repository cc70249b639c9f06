"""Do the interventions trade beginnings for tails, and at which positions?

    python research/source_windows/analyse_windows.py --study NAME --population development|confirmation \\
        [--root DIR] [--freeze]

Reads   runs/NAME/windows/POPULATION/: what select_windows.py and score_windows.py wrote
Writes  into the same folder windows.json, contrasts.png and, for development, position_parts.png; with --freeze, beside
        this script, NAME_POPULATION.json and NAME_POPULATION_{lengths,windows,counts,nats}.npy, which are all that
        verify_window_evidence.py needs
Needs   NumPy, matplotlib and tabulate
About   a few seconds

The contrasts are the study's conditions at each seed in the protocol's `contrast_strata`. They are predeclared for the
confirmation and exploratory for development, as every other cell is. Intervals are over documents, for these trained
models; two seeds say nothing about the spread over training runs. Exit 1: position parts do not add up to their window.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from evidence import Checks, InputError, parser, read_json, run_script, sha256_file, write_json
from research.frozen_arrays import digests, freeze, npy_bytes
from research.source_windows.contrasts import TOLERANCE, by_stratum, cells, position_parts, score_rows
from research.source_windows.windows import add_arguments, windows_of

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "research/source_windows"
ARRAYS = ("lengths", "windows", "counts", "nats")
KEPT = ("run", "weights", "fingerprint", "forward_positions", "padding", "seals")


def read_losses(windows):
    """Read the losses, float64 (runs, windows, bins + 1), and each scoring's record; InputError when incomplete."""
    selection, nats, records = sha256_file(windows.folder / "selection.json"), [], []
    for run, _, _ in windows.run_names():
        path = windows.folder / f"{run}.npy"
        record = read_json(windows.folder / f"{run}.json")
        if record["selection"] != selection or sha256_file(path) != record["nats"]:
            raise InputError(f"{path}: expected losses of this selection, as their record names them; run "
                             "score_windows.py again")
        nats.append(np.load(path))
        records.append({key: record[key] for key in KEPT})
    return np.stack(nats), records


def analyse(windows, record, strata, scoring):
    """Return the evidence without its `files`; strata: [Stratum]."""
    runs, section = windows.run_names(), windows.section
    bootstrap, chosen = section["bootstrap"], section["contrast_strata"]
    found = cells(strata, runs, chosen, bootstrap)
    evidence = {
        **{key: value for key, value in record.items() if key != "files"},
        "runs": [{"run": run, "condition": condition, "seed": seed} for run, condition, seed in runs],
        "scoring": scoring, "bootstrap": bootstrap, "contrast_strata": chosen,
        "contrasts": {"number": sum(cell["contrast"] for cell in found),
                      "status": "predeclared" if windows.population == "confirmation" else "exploratory"},
        "scores": score_rows(strata, runs), "cells": found, "position_parts": None,
    }
    if windows.population == "development":
        parts = position_parts(strata, runs)
        evidence["position_parts"] = {"status": "post hoc", "tolerance": TOLERANCE, "rows": parts,
                                      "largest_error": max((row["error"] for row in parts), default=0.0)}
    return evidence


def finding(evidence):
    """State the contrasts in one sentence."""
    shown = [cell["quantities"].get("tail_minus_beginning") for cell in evidence["cells"] if cell["contrast"]]
    bounds = [entry["interval_adjusted"] for entry in shown if entry and entry["interval_adjusted"]]
    below, above = sum(high < 0 for _, high in bounds), sum(low > 0 for low, _ in bounds)
    return (f"{below + above} of {evidence['contrasts']['number']} {evidence['contrasts']['status']} contrasts (tail "
            f"minus beginning) exclude zero after adjustment: {below} below, {above} above.")


def table(evidence):
    """Format the contrasts as a text table."""
    from tabulate import tabulate

    rows = []
    for cell in (cell for cell in evidence["cells"] if cell["contrast"]):
        values = {name: f"{entry['value']:+.6f}" for name, entry in cell["quantities"].items()}
        entry = cell["quantities"].get("tail_minus_beginning", {})
        bounds = entry.get("interval_adjusted")
        census = "*" if cell["census"] else ""
        rows.append([cell["condition"], cell["seed"], cell["stratum"], f"{cell['sources']}{census}",
                     *(values.get(name, "-") for name in ("beginning", "tail", "tail_minus_beginning")),
                     f"[{bounds[0]:+.6f}, {bounds[1]:+.6f}]" if bounds else
                     cell["degenerate"] or entry.get("reason", "-")])
    level = 100 - 5 / evidence["contrasts"]["number"]
    headers = ["condition", "seed", "length", "documents", "beginning", "tail", "tail minus\nbeginning", f"{level} %"]
    return tabulate(rows, headers, disable_numparse=True, colalign=("left", *["right"] * 7))


def gather(windows):
    """Return (evidence, {file: bytes of its arrays}) of a population that was selected and scored."""
    record, chosen, counts = windows.selection()
    nats, scoring = read_losses(windows)
    evidence = analyse(windows, record, by_stratum(record["strata"], chosen, counts, nats), scoring)
    stem = f"{windows.name}_{windows.population}"
    arrays = zip(ARRAYS, (np.load(windows.folder / "lengths.npy"), chosen, counts, nats), strict=True)
    files = {f"{stem}_{name}.npy": npy_bytes(array) for name, array in arrays}
    return {**evidence, "files": digests(files)}, files


def main(argv=None):
    from research.source_windows.window_figures import draw

    arguments = parser(__doc__)
    add_arguments(arguments, ROOT)
    arguments.add_argument("--freeze", action="store_true", help="write the evidence and its arrays beside this script")
    options = arguments.parse_args(argv)
    windows = windows_of(options)
    evidence, files = gather(windows)
    print(f"{finding(evidence)}\n\n{table(evidence)}\n\nBits per byte against the same-seed baseline; negative is "
          "better. * marks a census: every document of the stratum.")
    write_json(windows.folder / "windows.json", evidence)
    figures = draw(evidence, windows.folder)
    if options.freeze:
        freeze(windows.root / QUESTION / f"{windows.name}_{windows.population}.json", evidence, files)
    code = 0
    if evidence["position_parts"]:
        checks, error = Checks(), evidence["position_parts"]["largest_error"]
        checks.expect(error <= TOLERANCE, f"position parts: add up to their window within {error:.1e} bits per byte")
        code = checks.close()
    print("results:", ", ".join(map(str, [windows.folder / "windows.json", *figures])))
    return code


if __name__ == "__main__":
    sys.exit(run_script(main))
