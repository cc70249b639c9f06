"""Window evidence and rankings of a study whose losses are made up: no model is trained."""

from pathlib import Path

import numpy as np

from evidence import sha256_bytes, sha256_file, write_json
from research.frozen_arrays import npy_bytes
from research.prefix_ranking import rank_prefixes
from research.source_windows import analyse_windows, select_windows
from research.source_windows.windows import Windows
from tiny import corpus as tiny_corpus
from tiny import windows as tiny_windows

ROOT = Path(__file__).resolve().parents[2]

NAMES = [f"{condition}_s{seed}" for seed in (43, 44) for condition in ("baseline", "random_crop", "segmented")]


def protocols(root):
    """A root with the tiny protocols and data."""
    write_json(root / "protocols/tiny.json", tiny_corpus.protocol())
    write_json(root / "protocols/evaluation_tiny.json", tiny_windows.EVALUATION)
    tiny_corpus.write_corpus(root / "data", "tiny")
    return root


def checked_models(root, **more):
    """Checks of the made-up models below `root`, as audit_checkpoints.py freezes them."""
    weights = {name: {"files": {"model.safetensors": sha256_bytes(name.encode())}} for name in NAMES}
    write_json(root / "research/matched_training/checkpoints_tiny.json", {"content": {"runs": weights}, **more})


def freeze_windows(root, population="development", seals=None):
    """Select windows, make up their losses, analyse and freeze them; the path of the JSON."""
    common = ["--study", "tiny", "--population", population, "--root", str(root)]
    assert select_windows.main(common) == 0
    windows, random = Windows("tiny", population, root), np.random.default_rng(5)
    record, _, counts = windows.selection()
    shared = counts[:, :, 2] * random.uniform(1, 3, counts.shape[:2])
    for name in NAMES:
        parts = shared * random.uniform(0.9, 1.1, shared.shape)
        data = npy_bytes(np.concatenate([parts, parts.sum(axis=1, keepdims=True)], axis=1))
        (windows.folder / f"{name}.npy").write_bytes(data)
        write_json(windows.folder / f"{name}.json", {
            "run": name, "weights": sha256_bytes(name.encode()), "fingerprint": record["fingerprint"],
            "forward_positions": 1000, "padding": {"windows_checked": 4, "largest_difference": 0.0}, "seconds": 1.0,
            "seals": seals,
            "selection": sha256_file(windows.folder / "selection.json"), "nats": sha256_bytes(data)})
    assert analyse_windows.main([*common, "--freeze"]) == 0
    return root / analyse_windows.QUESTION / f"tiny_{population}.json"


def write_run(directory, condition, seed, statistics, plan="a" * 64):
    """result.json and evaluation_rows.npy of a run as train.py leaves them; statistics: float64 (rows, 4)."""
    import scoring

    directory.mkdir(parents=True)
    data = npy_bytes(statistics)
    (directory / "evaluation_rows.npy").write_bytes(data)
    write_json(directory / "result.json", {
        "condition": condition, "seed": seed, "score": scoring.summarise(statistics),
        "digests": {"evaluation_rows.npy": sha256_bytes(data), "evaluation_plan": plan}})


def write_runs(root, rows=24):
    """Six runs with made-up row statistics over one population; {run: statistics}."""
    random, found = np.random.default_rng(6), {}
    counts = np.stack([random.integers(60, 200, rows), random.integers(60, 150, rows), np.full(rows, 32)], axis=1)
    shared = counts[:, 2] * random.uniform(1, 4, rows)
    for name in NAMES:
        condition, seed = name.rsplit("_s", 1)
        found[name] = np.column_stack([shared * random.uniform(0.98, 1.02, rows), counts]).astype(np.float64)
        write_run(root / "runs/tiny" / name, condition, int(seed), found[name])
    return found


def freeze_rankings(root, *more):
    """Freeze the rankings of the root's runs; the path of the JSON."""
    assert rank_prefixes.main(["--study", "tiny", "--root", str(root), "--freeze", *map(str, more)]) == 0
    return root / rank_prefixes.QUESTION / "tiny.json"


def leaves(value, path=()):
    """Every key path of a JSON value that ends in a number, text, null or empty container."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not items:
        yield path
    for key, item in items:
        yield from leaves(item, (*path, key))


def with_other(value, path):
    """A copy of a JSON value with the leaf at `path` slightly changed."""
    if path:
        copy = dict(value) if isinstance(value, dict) else list(value)
        copy[path[0]] = with_other(value[path[0]], path[1:])
        return copy
    if isinstance(value, bool) or value is None:
        return value is not True
    if isinstance(value, float):
        return float(np.nextafter(value, 9.0))
    return value + 1 if isinstance(value, int) else value + "x" if isinstance(value, str) else ["x"]


def refreeze(path, found, arrays):
    """Write evidence and {name: array} with digests that fit: what is wrong then is wrong in content alone."""
    for name, array in arrays.items():
        data = npy_bytes(array)
        path.with_name(f"{path.stem}_{name}.npy").write_bytes(data)
        found["files"][f"{path.stem}_{name}.npy"] = sha256_bytes(data)
    write_json(path, found)
