"""What does each of the six models lose on every selected window, by position?

Each window is a row of its own: BOS and its text tokens, padded on the right. The model, and how it scores, are the run
directory's own train.py. Padding may not matter: of each stratum with padding one microbatch is scored again with
other ids as padding, and not one loss may differ.

    score_windows.py --study NAME --population development|confirmation (--device cpu | --gpu INDEX_OR_UUID)

Reads   what select_windows.py wrote; runs/NAME/<run>/ of every run; for the confirmation, the gate of
        research/confirmation must be open
Writes  runs/NAME/windows/POPULATION/: <run>.npy, float64 (windows, bins + 1), nats of each position bin and, summed
        apart, of the window; <run>.json, its digest, the weights', and that of the inputs and targets seen
Needs   torch. As long as scoring the windows' rows takes; a run scored before is kept

Exit 1: padding changed a loss, or a model saw other inputs or targets than were selected.
"""

import argparse
import hashlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from devices import add_device_arguments, reserve_device
from evidence import read_json, run_script, sha256_bytes, sha256_file, write_atomic, write_json
from research.frozen_arrays import npy_bytes
from research.source_windows.windows import COUNT, STRATUM, add_arguments, study_of, window_tokens

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

PADDING_SEED = 1
IGNORED = -100

# ------------------------------------------------------------------------------------------- windows


def rows_of(texts, shape, bos):
    """(inputs, targets) int64 of a shape (rows, width), one row a window; padding is BOS, its targets are ignored.

    There may be fewer windows than rows, which then are padding: compiled code is made for one shape.
    """
    inputs, targets = np.full(shape, bos), np.full(shape, IGNORED)
    for row, text in enumerate(texts):
        inputs[row, 1 : len(text)] = text[:-1]
        targets[row, : len(text)] = text
    return inputs, targets


def by_position(nats, bins):
    """float64 (windows, bins + 1): sums over the position bins, then over the whole window, summed apart."""
    edges = [0, *bins, nats.shape[1]]
    parts = [nats[:, first:last].sum(axis=1) for first, last in zip(edges, edges[1:])]
    return np.stack([*parts, nats.sum(axis=1)], axis=1)


def batches(windows, size):
    """(first, last) of at most `size` windows each, no batch in two strata."""
    edges = [0, *(np.flatnonzero(np.diff(windows[:, STRATUM])) + 1).tolist(), len(windows)]
    for low, high in zip(edges, edges[1:]):
        yield from ((first, min(first + size, high)) for first in range(low, high, size))


# ------------------------------------------------------------------------------------------- scoring


class Scorer:
    """One saved run on the windows of a study. Counts forward positions, and keeps what padding did to losses."""

    def __init__(self, saved):
        self.forward, self.config = saved.forward(), saved.config
        self.progress = lambda cuts: saved.train.bar(cuts, f"{saved.name}: windows", len(cuts))
        self.positions, self.padded, self.largest = 0, 0, 0.0

    def nats(self, inputs, targets):
        """Nats of every target, float64 (windows, width), 0 where ignored."""
        import torch

        self.positions += inputs.size
        tensors = (torch.from_numpy(array).to(self.forward.device) for array in (inputs, targets))
        return self.forward.nats(*tensors).double().cpu().numpy()

    def check_padding(self, inputs, targets, nats):
        """Score again with random ids as padding."""
        padding = targets == IGNORED
        other = np.random.PCG64(PADDING_SEED).random_raw(inputs.size) % np.uint64(self.config["vocabulary"])
        again = self.nats(np.where(padding, other.astype(np.int64).reshape(inputs.shape), inputs), targets)
        self.padded += int((padding.any(axis=1) & ~padding.all(axis=1)).sum())
        self.largest = max(self.largest, float(np.abs(again - nats).max()))

    def score(self, record, windows, texts, supplied):
        """(nats, float64 (windows, bins + 1); the digest of inputs and targets that the model saw)."""
        parts, digest, checked = [], hashlib.sha256(), set()
        shape = self.config["evaluation"]["microbatch"], record["context"]
        for first, last in self.progress(list(batches(windows, shape[0]))):
            inputs, targets = rows_of(texts[first:last], shape, record["bos"])
            real = targets != IGNORED
            nats = self.nats(inputs, targets) * (supplied[np.where(real, targets, 0)] > 0)
            for row, keep in enumerate(real):
                digest.update(np.concatenate([inputs[row][keep], targets[row][keep]]).astype("<u4").tobytes())
            parts.append(by_position(nats[: last - first], record["bins"]))
            stratum = int(windows[first, STRATUM])
            if stratum not in checked and windows[first:last, COUNT].min() < record["context"]:
                checked.add(stratum)
                self.check_padding(inputs, targets, nats)
        return np.concatenate(parts), digest.hexdigest()


def score_run(directory, device, record, windows, texts, supplied):
    """(nats, what <run>.json says of how they came about) of one run; InputError when it is not as it was trained."""
    from research.saved_runs import SavedRun, require_unchanged

    require_unchanged(directory)
    saved = SavedRun(directory, device)
    scorer, began = Scorer(saved), time.perf_counter()
    nats, fingerprint = scorer.score(record, windows, texts, supplied)
    return nats, {"run": directory.name, "weights": saved.files["model.safetensors"], "fingerprint": fingerprint,
                  "forward_positions": scorer.positions, "seconds": time.perf_counter() - began,
                  "padding": {"windows_checked": scorer.padded, "largest_difference": scorer.largest}}


# ---------------------------------------------------------------------------------------------- main


def require_gate(study):
    """{"protocol", "checkpoints"}: seals of the frozen protocol and the checkpoint checks; InputError if not both.

    From here on it is on record that the reserved documents are being scored.
    """
    from research.confirmation import gate
    from research.confirmation.reserved import Study as Reserved

    reserved = Reserved(study.name, study.root)
    records = gate.require_open(reserved)
    gate.begin(reserved, records[0])
    return {name: record["sha256"] for name, record in zip(("protocol", "checkpoints"), records)}


def findings(record, scored):
    """What is false about one scored run, in words."""
    wrong = []
    if scored["fingerprint"] != record["fingerprint"]:
        wrong.append("the model saw other inputs or targets than were selected")
    if scored["padding"]["largest_difference"] != 0:
        wrong.append(f"padding changes a loss by {scored['padding']['largest_difference']} nats")
    return wrong


def scored_before(folder, run, directory, selection, seals):
    """Whether <run>.json and <run>.npy are there, of this selection, these weights and these seals."""
    path, nats = folder / f"{run}.json", folder / f"{run}.npy"
    if not path.exists() or not nats.exists():
        return False
    old, weights = read_json(path), sha256_file(directory / "model.safetensors")
    return (old["selection"], old["weights"], old["nats"], old["seals"]) == (
        selection, weights, sha256_file(nats), seals)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, ROOT)
    add_device_arguments(parser)
    options = parser.parse_args(argv)
    device, study = reserve_device(options), study_of(options)
    record, windows, _ = study.selection()
    seals = require_gate(study) if study.population == "confirmation" else None
    texts = list(window_tokens(windows, *(study.array(f"validation/{name}.npy") for name in ("lengths", "tokens"))))
    supplied, selection = study.array("tokenizer/bytes_supplied.npy"), sha256_file(study.folder / "selection.json")
    false = 0
    for run, _, _ in study.run_names():
        if scored_before(study.folder, run, study.runs / run, selection, seals):
            print(f"kept {run}: scored before")
            continue
        nats, scored = score_run(study.runs / run, device, record, windows, texts, supplied)
        wrong, data = findings(record, scored), npy_bytes(nats)
        false += len(wrong)
        print(*(f"FALSE {run}: {finding}" for finding in wrong), sep="\n", end="\n" if wrong else "")
        if not wrong:
            write_atomic(study.folder / f"{run}.npy", data)
            scored.update(seals=seals, selection=selection, nats=sha256_bytes(data))
            write_json(study.folder / f"{run}.json", scored)
            print(f"ok {run}: {len(nats):,} windows in {scored['seconds']:.1f} s; other padding, the same losses in "
                  f"{scored['padding']['windows_checked']} windows", flush=True)
    print(f"losses: {study.folder}")
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(run_script(main))
