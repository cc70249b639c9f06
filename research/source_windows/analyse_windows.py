"""Do the interventions trade beginnings for tails, and at which positions?

    analyse_windows.py --study NAME --population development|confirmation [--freeze]

Reads   runs/NAME/windows/POPULATION/: what select_windows.py and score_windows.py wrote
Writes  the same folder: windows.json, contrasts.png and, for development, position_parts.png. With --freeze also
        beside this script: NAME_POPULATION.json and NAME_POPULATION_{lengths,windows,counts,nats}.npy, all that
        verify_window_evidence.py needs
Needs   NumPy, matplotlib, tabulate. A few seconds

The contrasts are the study's conditions at each seed in the protocol's `contrast_strata`: predeclared for the
confirmation, exploratory for development, as is every other cell. Intervals are over documents, for these trained
models; two seeds say nothing about training. Exit 1: position parts do not add up to their window.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from evidence import InputError, read_json, run_script, sha256_file, write_json
from research.frozen_arrays import digests, freeze, npy_bytes
from research.source_windows.contrasts import TOLERANCE, by_stratum, cells, position_parts, score_rows
from research.source_windows.windows import add_arguments, study_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

ARRAYS = ("lengths", "windows", "counts", "nats")
KEPT = ("run", "weights", "fingerprint", "forward_positions", "padding", "seals")


def read_losses(study):
    """float64 (runs, windows, bins + 1) and what was recorded of each scoring; InputError when it is not complete."""
    selection, nats, records = sha256_file(study.folder / "selection.json"), [], []
    for run, _, _ in study.run_names():
        path = study.folder / f"{run}.npy"
        record = read_json(study.folder / f"{run}.json")
        if record["selection"] != selection or sha256_file(path) != record["nats"]:
            raise InputError(f"{path}: not of this selection, or changed; run score_windows.py again")
        nats.append(np.load(path))
        records.append({key: record[key] for key in KEPT})
    return np.stack(nats), records


def analyse(study, record, strata, scoring):
    """The evidence, without its `files`; strata: [Stratum]."""
    runs, bootstrap, chosen = study.run_names(), study.section["bootstrap"], study.section["contrast_strata"]
    found = cells(strata, runs, chosen, bootstrap)
    evidence = {
        **{key: value for key, value in record.items() if key != "files"},
        "runs": [{"run": run, "condition": condition, "seed": seed} for run, condition, seed in runs],
        "scoring": scoring, "bootstrap": bootstrap, "contrast_strata": chosen,
        "contrasts": {"number": sum(cell["contrast"] for cell in found),
                      "status": "predeclared" if study.population == "confirmation" else "exploratory"},
        "scores": score_rows(strata, runs), "cells": found, "position_parts": None,
    }
    if study.population == "development":
        parts = position_parts(strata, runs)
        evidence["position_parts"] = {"status": "post hoc", "tolerance": TOLERANCE, "rows": parts,
                                      "largest_error": max((row["error"] for row in parts), default=0.0)}
    return evidence


def finding(evidence):
    """The contrasts in one sentence."""
    shown = [cell["quantities"].get("tail_minus_beginning") for cell in evidence["cells"] if cell["contrast"]]
    bounds = [entry["interval_adjusted"] for entry in shown if entry and entry["interval_adjusted"]]
    below, above = sum(high < 0 for _, high in bounds), sum(low > 0 for low, _ in bounds)
    return (f"{below + above} of {evidence['contrasts']['number']} {evidence['contrasts']['status']} contrasts (tail "
            f"minus beginning) exclude zero after adjustment: {below} below, {above} above.")


def table(evidence):
    """The contrasts as text."""
    from tabulate import tabulate

    rows = []
    for cell in (cell for cell in evidence["cells"] if cell["contrast"]):
        values = {name: f"{entry['value']:+.6f}" for name, entry in cell["quantities"].items()}
        bounds = cell["quantities"].get("tail_minus_beginning", {}).get("interval_adjusted")
        rows.append([cell["condition"], cell["seed"], cell["stratum"], f"{cell['sources']}{'*' * cell['census']}",
                     *(values.get(name, "-") for name in ("beginning", "tail", "tail_minus_beginning")),
                     f"[{bounds[0]:+.6f}, {bounds[1]:+.6f}]" if bounds else cell["degenerate"]])
    level = 100 - 5 / evidence["contrasts"]["number"]
    headers = ["condition", "seed", "length", "documents", "beginning", "tail", "tail minus\nbeginning", f"{level} %"]
    return tabulate(rows, headers, disable_numparse=True, colalign=("left", *["right"] * 7))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, ROOT)
    parser.add_argument("--freeze", action="store_true", help="write the evidence and its arrays beside this script")
    options = parser.parse_args(argv)
    study = study_of(options)
    record, windows, counts = study.selection()
    nats, scoring = read_losses(study)
    strata = by_stratum(record["strata"], windows, counts, nats)
    evidence = analyse(study, record, strata, scoring)
    lengths = np.load(study.folder / "lengths.npy")
    stem = f"{study.name}_{study.population}"
    arrays = zip(ARRAYS, (lengths, windows, counts, nats))
    files = {f"{stem}_{name}.npy": npy_bytes(array) for name, array in arrays}
    evidence["files"] = digests(files)

    from research.source_windows.window_figures import draw

    print(f"{finding(evidence)}\n\n{table(evidence)}\n\nBits per byte against the same-seed baseline; negative is "
          "better. * census: every document of the stratum.")
    write_json(study.folder / "windows.json", evidence)
    figures = draw(evidence, study.folder)
    if options.freeze:
        freeze(HERE / f"{stem}.json", evidence, files)
    error = evidence["position_parts"]["largest_error"] if evidence["position_parts"] else 0.0
    if error > TOLERANCE:
        print(f"FALSE position parts miss their window by {error} bits per byte, more than {TOLERANCE}")
    print("results:", ", ".join(map(str, [study.folder / "windows.json", *figures])))
    return 1 if error > TOLERANCE else 0


if __name__ == "__main__":
    sys.exit(run_script(main))
