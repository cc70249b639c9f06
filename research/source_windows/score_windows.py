"""What does each trained model lose on every selected window, by position?

Each window is a row of its own: BOS and its text tokens, padded on the right. The model, and the way it scores, are the
run directory's own train.py. Padding must not matter: the script scores one microbatch of every stratum with padding
again, with other ids as padding, and not one loss may differ.

    python research/source_windows/score_windows.py --study NAME --population development|confirmation \\
        (--device cpu | --gpu INDEX_OR_UUID) [--root DIR]

Reads   what select_windows.py wrote; runs/NAME/<run>/ of every run; for the confirmation, the gate of
        research/confirmation must be open
Writes  runs/NAME/windows/POPULATION/: <run>.npy, float64 (windows, bins + 1), nats of each position bin and, summed
        separately, of the window; <run>.json, with the digests of these losses, of the weights, and of the inputs and
        targets that the model saw
Needs   torch
About   as long as a forward pass over the windows; a run that was scored before is kept

Exit 1: padding changed a loss, or a model saw other inputs or targets than were selected.
"""

import hashlib
import sys
import time
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from devices import add_device_arguments, reserve_device
from evidence import Checks, parser, read_json, run_script, sha256_bytes, sha256_file, write_atomic, write_json
from research.confirmation import gate
from research.confirmation.reserved import Reserved
from research.frozen_arrays import npy_bytes
from research.source_windows.windows import COUNT, STRATUM, add_arguments, window_tokens, windows_of

ROOT = Path(__file__).resolve().parents[2]
PADDING_SEED = 1
IGNORED = -100

# ------------------------------------------------------------------------------------------- windows


def rows_of(texts, shape, bos):
    """Lay out one window a row: (inputs, targets), int64 (rows, width); padding is BOS and its targets are IGNORED.

    Where there are fewer windows than rows, the other rows are padding: compiled code is made for one shape.
    """
    inputs, targets = np.full(shape, bos), np.full(shape, IGNORED)
    for row, text in enumerate(texts):
        inputs[row, 1 : len(text)] = text[:-1]
        targets[row, : len(text)] = text
    return inputs, targets


def by_position(nats, bins):
    """Sum the nats over each position bin and, separately, over the window: float64 (windows, bins + 1)."""
    edges = [0, *bins, nats.shape[1]]
    parts = [nats[:, first:last].sum(axis=1) for first, last in pairwise(edges)]
    return np.stack([*parts, nats.sum(axis=1)], axis=1)


def batches(windows, size):
    """Yield (first, last) of batches of at most `size` windows, none of which spans two strata."""
    edges = [0, *(np.flatnonzero(np.diff(windows[:, STRATUM])) + 1).tolist(), len(windows)]
    for low, high in pairwise(edges):
        yield from ((first, min(first + size, high)) for first in range(low, high, size))


# ------------------------------------------------------------------------------------------- scoring


class Scorer:
    """Scores one saved run on windows. It counts forward positions and the largest change that padding makes."""

    def __init__(self, saved):
        self.forward, self.config = saved.forward(), saved.config
        self.progress = lambda cuts: saved.train.bar(cuts, f"{saved.name}: windows", len(cuts))
        self.positions, self.padded, self.largest = 0, 0, 0.0

    def nats(self, inputs, targets):
        """Return the nats of every target, float64 (windows, width), 0 where IGNORED."""
        import torch

        self.positions += inputs.size
        tensors = (torch.from_numpy(array).to(self.forward.device) for array in (inputs, targets))
        return self.forward.nats(*tensors).double().cpu().numpy()

    def check_padding(self, inputs, targets, nats):
        """Score the batch again with random ids as padding."""
        padding = targets == IGNORED
        other = np.random.PCG64(PADDING_SEED).random_raw(inputs.size) % np.uint64(self.config["vocabulary"])
        again = self.nats(np.where(padding, other.astype(np.int64).reshape(inputs.shape), inputs), targets)
        self.padded += int((padding.any(axis=1) & ~padding.all(axis=1)).sum())
        self.largest = max(self.largest, float(np.abs(again - nats).max()))

    def score(self, record, windows, texts, supplied):
        """Return (nats, float64 (windows, bins + 1); the digest of the inputs and targets that the model saw)."""
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
    """Score one run: (nats, the content of <run>.json); InputError when the run is not as it was trained."""
    from research.saved_runs import SavedRun, require_unchanged

    require_unchanged(directory)
    saved = SavedRun(directory, device)
    scorer, began = Scorer(saved), time.perf_counter()
    nats, fingerprint = scorer.score(record, windows, texts, supplied)
    return nats, {"run": directory.name, "weights": saved.files["model.safetensors"], "fingerprint": fingerprint,
                  "forward_positions": scorer.positions, "seconds": time.perf_counter() - began,
                  "padding": {"windows_checked": scorer.padded, "largest_difference": scorer.largest}}


# ---------------------------------------------------------------------------------------------- main


def require_gate(windows):
    """Return the seals of the frozen protocol and of the checkpoint checks; InputError unless both exist and hold.

    From here on it is on record that the reserved documents are being scored.
    """
    reserved = Reserved(windows.name, windows.root)
    protocol, checkpoints = gate.require_open(reserved)
    gate.begin(reserved, protocol)
    return {"protocol": protocol["sha256"], "checkpoints": checkpoints["sha256"]}


def findings(record, scored):
    """Describe what is false about one scored run."""
    wrong = []
    if scored["fingerprint"] != record["fingerprint"]:
        wrong.append("the model saw other inputs or targets than were selected")
    if scored["padding"]["largest_difference"] != 0:
        wrong.append(f"padding changes a loss by {scored['padding']['largest_difference']} nats")
    return wrong


def scored_before(folder, run, directory, selection, seals):
    """Whether <run>.json and <run>.npy exist and belong to this selection, these weights and these seals."""
    path, nats = folder / f"{run}.json", folder / f"{run}.npy"
    if not path.exists() or not nats.exists():
        return False
    old, weights = read_json(path), sha256_file(directory / "model.safetensors")
    return (old["selection"], old["weights"], old["nats"], old["seals"]) == (
        selection, weights, sha256_file(nats), seals)


def keep(folder, run, nats, scored):
    """Write the losses of a run, then the record that names them."""
    data = npy_bytes(nats)
    write_atomic(folder / f"{run}.npy", data)
    write_json(folder / f"{run}.json", {**scored, "nats": sha256_bytes(data)})


def main(argv=None):
    arguments = parser(__doc__)
    add_arguments(arguments, ROOT)
    add_device_arguments(arguments)
    options = arguments.parse_args(argv)
    device, windows = reserve_device(options), windows_of(options)
    record, chosen, _ = windows.selection()
    seals = require_gate(windows) if windows.population == "confirmation" else None
    texts = list(window_tokens(chosen, windows.prepared))
    supplied, selection = windows.prepared.byte_tables[0], sha256_file(windows.folder / "selection.json")
    checks = Checks()
    for run, _, _ in windows.run_names():
        if scored_before(windows.folder, run, windows.runs / run, selection, seals):
            checks.expect(True, f"{run}: scored before, kept")
            continue
        nats, scored = score_run(windows.runs / run, device, record, chosen, texts, supplied)
        wrong = findings(record, scored)
        if not wrong:
            keep(windows.folder, run, nats, {**scored, "seals": seals, "selection": selection})
        checks.expect(not wrong, f"{run}: {'; '.join(wrong)}" if wrong else
                      f"{run}: {len(nats):,} windows in {scored['seconds']:.1f} s; other padding gave the same losses "
                      f"in {scored['padding']['windows_checked']} windows")
    code = checks.close()
    print(f"losses: {windows.folder}")
    return code


if __name__ == "__main__":
    sys.exit(run_script(main))
