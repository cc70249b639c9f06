"""A repository with complete evidence: what is frozen here, and a study `tiny` of made-up losses instead of `wheels`.

No model is trained. Window evidence and rankings are made by their own scripts; results, checkpoint checks and the
confirmation are written here as their verifiers must read them.
"""

import json
import math
import shutil
from pathlib import Path

import numpy as np

import check_manifests
import freeze_supplement
import generate_runs
from evidence import canonical_json, read_json, sha256_bytes, sha256_file, write_json
from research.frozen_arrays import npy_bytes
from research.matched_training.run_identity import model_size
from tiny import frozen_windows
from tiny import windows as tiny_windows

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = ("matched_training", "prefix_ranking", "source_windows", "confirmation")
PARTS = ("frozen list", "packing checker", "length histogram", "training table, demo", "training table, wheels",
         "evaluation summary", "window evidence", "confirmation", "published tables", "batch boundaries",
         "token bytes", "resources")
MOVED = {
    '"protocol.py"': '"protocols/schema.py"', '"portable_names.py"': '"bundles/*.py"',
    ', "safe_archive.py"': "", '"resampling.py", "frozen_arrays.py"': '"research/*.py"',
    "research/source_exclusion/packing_checker.py": "research/theorem/packing_checker.py",
}
CONTEXT = 32
EXCLUSIONS = {"documents": [45, 60], "excluded": [{"document": 50, "copies": 1}]}


def name_of_question(name):
    """QUESTION of research/QUESTION/..., else an empty text."""
    return name.split("/")[1] if name.startswith("research/") else ""


def contents():
    """Version 1's table of contents, with today's paths of what has moved since."""
    text = (ROOT / "manifests/supplement_v1.json").read_text(encoding="utf-8")
    for old, new in MOVED.items():
        text = text.replace(old, new)
    return json.loads(text)


def copy_sources(repository):
    """Every file that v1 would hold but the trained study's evidence; its table of contents names `tiny` instead."""
    content = contents()
    for name in freeze_supplement.gather(ROOT, content["contents"])[0]:
        if "wheels" not in name or name_of_question(name) not in QUESTIONS:
            (repository / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, repository / name)
    content["parts"] = [part if name_of_question(part["command"][0]) not in QUESTIONS else
                        json.loads(json.dumps(part).replace("wheels", "tiny"))
                        for part in content["parts"] if part["name"] in PARTS]
    write_json(repository / "manifests/supplement_v1.json", content)


def summary(rows):
    """The score of row statistics, float64 (rows, 4)."""
    nats, (supplied, raw, targets) = math.fsum(rows[:, 0]), (int(sum(column)) for column in rows[:, 1:].T.tolist())
    return {"rows": len(rows), "targets": targets, "nats": nats, "supplied_bytes": supplied, "raw_bytes": raw,
            "bits_per_byte": nats / (math.log(2) * supplied), "raw_bits_per_byte": nats / (math.log(2) * raw),
            "cross_entropy": nats / targets, "perplexity": math.exp(nats / targets)}


def sealed(content):
    record = {"content": content, "sealed_at": "2026-01-01T00:00:00Z"}
    return record | {"sha256": sha256_bytes(canonical_json(record))}


def model_digest(name):
    """The SHA-256 that the made-up window scorings name as a run's weights."""
    return sha256_bytes(name.encode())


def budget(protocol):
    """What a result repeats of its protocol."""
    rows, context = math.prod(protocol["training"][key] for key in ("updates", "accumulation", "microbatch")), CONTEXT
    parameters, flops = model_size(protocol["model"], protocol["tokenizer"]["vocabulary"], context)
    return {"study": "tiny", "parameters": parameters, "flops_per_token": flops, "targets": rows * context,
            "total_flops": flops * rows * context, "effective_targets": rows * context, "rows": rows,
            "updates": protocol["training"]["updates"]}


def write_results(repository, study):
    """The demo's results with the study's scores, size and settings, their curves, and checkpoint checks, returned."""
    folder, path = repository / "research/matched_training", study / "protocols/tiny.json"
    protocol, results = read_json(path), read_json(folder / "demo.json")
    runs, data = results["runs"], study / "data/tiny"
    made = generate_runs.generated_files(protocol, path, ROOT, data, study / "runs/tiny")
    for name, run in runs.items():
        own = read_json(study / f"runs/tiny/{name}/result.json")
        code = {file: sha256_bytes(made[f"{name}/{file}"]) for file in run["digests"]["code"]}
        config = made[f"{name}/config.json"]
        digests = {"code": code, "config": sha256_bytes(config), "inputs": json.loads(config)["data"]["files"]}
        run.update(budget(protocol), score=own["score"], digests=run["digests"] | own["digests"] | digests)
    bits = {name: run["score"]["bits_per_byte"] for name, run in runs.items()}
    results["bits_per_byte_minus_baseline"] = {
        name: bits[name] - bits[f"baseline_s{name[-2:]}"] for name in bits if not name.startswith("baseline")}
    write_json(folder / "tiny.json", results)
    (folder / "runs_tiny.sha256").write_bytes(made["runs.sha256"])
    curves = {name: {"loss": [9.0] * run["updates"], "seconds": [run["seconds"]["loop"]] * run["updates"]}
              for name, run in runs.items()}
    write_json(folder / "curves_tiny.json", {"study": "tiny", "inputs": [], "runs": curves})
    checks = sealed({"runs": {
        name: {"files": {"result.json": sha256_bytes(canonical_json(run)), "model.safetensors": model_digest(name)},
               "findings": [], "score": run["score"], "rescored": run["score"]} for name, run in runs.items()}})
    write_json(folder / "checkpoints_tiny.json", checks)
    return checks


def write_confirmation(repository, checks, rows=6):
    """A confirmation of the checked models over made-up row statistics, as its scripts freeze it; the protocol."""
    folder, runs = repository / "research/confirmation", list(checks["content"]["runs"])
    inputs, random = ("protocols/demo.json", "train.py"), np.random.default_rng(7)
    counts = np.column_stack([random.integers(60, 200, (rows, 2)), np.full(rows, CONTEXT)])
    statistics = np.stack([np.column_stack([random.uniform(50, 90, rows), counts]) for _ in runs])
    (folder / "rows_tiny.npy").write_bytes(npy_bytes(statistics))
    pairs = [[name, f"baseline_s{name[-2:]}"] for name in runs if not name.startswith("baseline")]
    protocol = sealed({
        "runs": runs, "contrasts": pairs, "excluded": [50],
        "inputs": [{"path": name, "sha256": sha256_file(repository / name)} for name in inputs],
        "evaluation": {**tiny_windows.EVALUATION, "confirmation": {"documents": EXCLUSIONS["documents"]}},
        "packing": {"context": CONTEXT, "buffer_size": 8},
        "stream": {"documents": 14, "rows": rows, "targets": rows * CONTEXT, "fingerprint": "f" * 64}})
    write_json(folder / "protocol_tiny.json", protocol)
    scores = dict(zip(runs, map(summary, statistics)))
    bits = {name: score["bits_per_byte"] for name, score in scores.items()}
    write_json(folder / "tiny.json", {
        "began_at": "2026-01-01T00:00:01Z",
        **{name: {key: record[key] for key in ("sealed_at", "sha256")}
           for name, record in (("protocol", protocol), ("checkpoints", checks))},
        "rows": {"order": runs, "sha256": sha256_file(folder / "rows_tiny.npy")},
        "runs": {name: {"score": scores[name], "fingerprint": "f" * 64,
                        "model_sha256": model_digest(name)} for name in runs},
        "bits_per_byte_minus_baseline": {a: bits[a] - bits[b] for a, b in pairs}})
    return protocol


def write_windows_and_rankings(repository, study, seals):
    """Their own scripts' evidence of a study whose losses are made up, at `study`."""
    for root in (study, repository):
        write_json(root / "research/confirmation/exclusions_tiny.json", EXCLUSIONS)
    for population, sealed_by in (("development", None), ("confirmation", seals)):
        frozen = frozen_windows.freeze_windows(study, population, sealed_by).parent
        shutil.copytree(frozen, repository / "research/source_windows", dirs_exist_ok=True)
    shutil.copytree(frozen_windows.freeze_rankings(study).parent, repository / "research/prefix_ranking",
                    dirs_exist_ok=True)


def build(repository, study):
    """The repository; `study` is a folder for what the made-up evidence is made from."""
    copy_sources(repository)
    frozen_windows.protocols(study)
    frozen_windows.write_runs(study)
    for path in (study / "protocols").iterdir():
        shutil.copy(path, repository / "protocols")
    checks = write_results(repository, study)
    protocol = write_confirmation(repository, checks)
    seals = {"protocol": protocol["sha256"], "checkpoints": checks["sha256"]}
    write_windows_and_rankings(repository, study, seals)
    assert check_manifests.main(["--root", str(repository), "--freeze"]) == 0
    return repository
