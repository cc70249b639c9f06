"""A study small enough to pack by hand, whose sweep scored one reserved document before its confirmation.

Twelve documents of three tokens arrive in batches of 3, 3, 2 and 4, and at least two are held. Documents 3 to 11 are
reserved. Rows of 5 tokens confirm documents 3 and 4, 5 and 6, 7 and 8, the second of each cropped to two tokens. Four
rows of 3 tokens, of the candidates of context 2, are documents 0 to 3; one row of 9 is documents 0 to 2.
"""

import hashlib
import io
import math

import numpy as np

from evidence import read_json, sha256_bytes, sha256_file, write_json
from tiny.corpus import ROOT, list_prepared

PLAN = [[0, 3, 1, 0, 2], [0, 4, 1, 0, 1], [1, 5, 1, 0, 2], [1, 6, 1, 0, 1], [2, 7, 1, 0, 2], [2, 8, 1, 0, 1]]
SEEN = {"documents": [3], "rows": [0], "tokens": 3}
CONTEXT_2 = {"candidates": 2, "context": 2, "targets": 8, "arrived": 6, "begun": 4, "reserved_arrived": 3,
             "reserved_begun": [3], "longest_begun": 3, "in_confirmation": SEEN}
CONTEXT_8 = {"candidates": 1, "context": 8, "targets": 8, "arrived": 6, "begun": 3, "reserved_arrived": 3,
             "reserved_begun": [], "longest_begun": 0, "in_confirmation": {"documents": [], "rows": [], "tokens": 0}}
RUNS = [f"{condition}_s{seed}" for seed in (43, 44) for condition in ("baseline", "random_crop", "segmented")]


def differences(statistics, order, rows):
    """{run: bits per byte minus the baseline's of its seed} over some rows of statistics float64 (runs, rows, 4)."""
    bits = {name: math.fsum(run[row, 0] for row in rows) / (math.log(2) * int(sum(run[row, 1] for row in rows)))
            for name, run in zip(order, statistics, strict=True)}
    return {name: bits[name] - bits["baseline" + name[-4:]] for name in order if not name.startswith("baseline")}


def plan_hash(plan):
    return hashlib.sha256(np.array(plan, "<i8").tobytes()).hexdigest()


def write_protocols(folder):
    protocol = read_json(ROOT / "protocols/wheels.json") | {"study": "tiny"}
    protocol["packing"] |= {"context": 4, "buffer_size": 2, "refill_batch": 4}
    protocol["evaluation"]["targets"] = 4
    write_json(folder / "tiny.json", protocol)
    write_json(folder / "evaluation_tiny.json", {"confirmation": {"documents": [3, 12], "targets": 12}})
    candidates = [{"context": context, "heads": 2, "microbatch": microbatch, "width": 128}
                  for context, microbatch in ((2, 1), (8, 1), (2, 4))]
    sweep = read_json(ROOT / "protocols/candidates_wheels.json")
    write_json(folder / "candidates_tiny.json",
               sweep | {"base": "tiny", "candidates": candidates, "evaluation_targets": 8})


def write_data(folder):
    """The prepared validation split; its files as evidence names its inputs."""
    arrays = {"tokens": np.zeros(24, np.uint16), "lengths": np.full(12, 3), "refill": np.array([3, 3, 2, 4])}
    (folder / "validation").mkdir(parents=True)
    for name, array in arrays.items():
        np.save(folder / f"validation/{name}.npy", array)
    list_prepared(folder)
    names = [f"validation/{name}.npy" for name in arrays]
    return [{"path": f"data/tiny/{name}", "sha256": sha256_file(folder / name)} for name in names]


def write_confirmation(folder, inputs):
    """What confirming the study froze: protocol, exclusions, result and row statistics."""
    random, buffer = np.random.default_rng(7), io.BytesIO()
    statistics = np.stack([np.stack([random.uniform(5, 9, 3), [11, 7, 13], [11, 7, 13], [4, 4, 4]], 1) for _ in RUNS])
    np.save(buffer, statistics)
    folder.mkdir(parents=True)
    (folder / "rows_tiny.npy").write_bytes(buffer.getvalue())
    write_json(folder / "exclusions_tiny.json", {"excluded": []})
    write_json(folder / "protocol_tiny.json", {"content": {
        "contrasts": [[name, "baseline" + name[-4:]] for name in RUNS if not name.startswith("baseline")],
        "evaluation": {"confirmation": {"documents": [3, 12], "targets": 12}}, "excluded": [], "inputs": inputs,
        "packing": {"context": 4, "buffer_size": 2},
        "stream": {"plan_sha256": plan_hash(PLAN), "rows": 3, "started": 6}}})
    write_json(folder / "tiny.json", {
        "bits_per_byte_minus_baseline": differences(statistics, RUNS, range(3)),
        "rows": {"order": RUNS, "sha256": sha256_bytes(buffer.getvalue())}})


def write_seen(folder, inputs):
    """What the sweep had scored, worked out by hand, as seen_NAME.json states it."""
    statistics = np.load(folder / "rows_tiny.npy")
    plans = {2: [[row, row, 1, 0, 2] for row in range(4)], 8: [[0, 0, 1, 0, 2], [0, 1, 1, 0, 2], [0, 2, 1, 0, 2]]}
    contexts = [{**record, "plan_sha256": plan_hash(plans[record["context"]])} for record in (CONTEXT_2, CONTEXT_8)]
    write_json(folder / "seen_tiny.json", {
        "study": "tiny", "reserved": [3, 12], "contexts": contexts, "inputs": inputs,
        "seen": {"reserved": [3], "in_confirmation": SEEN},
        "confirmation": {"begun": 6, "plan_sha256": plan_hash(PLAN), "rows": 3, "tokens": 15},
        "bits_per_byte_minus_baseline": {"all_rows": differences(statistics, RUNS, range(3)),
                                         "without_rows_seen": differences(statistics, RUNS, [1, 2])}})


def build(root):
    """Protocols, data, the frozen confirmation and what the sweep had scored of it."""
    write_protocols(root / "protocols")
    inputs = write_data(root / "data/tiny")
    write_confirmation(root / "research/confirmation", inputs)
    write_seen(root / "research/confirmation", inputs)
    return root
