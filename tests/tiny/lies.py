"""Lies told consistently: a copy of the frozen evidence in which every file that repeats a claim repeats the lie.

Seals, SHA-256 of results and lists of files are made again, so that only what the claim contradicts can find it.
"""

import shutil
from pathlib import Path

from evidence import canonical_json, read_json, sha256_bytes, write_json
from manifest import format_manifest, read_manifest

ROOT = Path(__file__).resolve().parents[2]
EVIDENCE = ("protocols", "manifests", "loaders", "research")


def copy_evidence(place):
    """The repository's frozen evidence below `place`, with the scripts beside it, without pages and figures."""
    for name in EVIDENCE:
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("*.png", "*.md", "__pycache__"))
    shutil.copytree(ROOT / "supplement_v1/loaders", place / "loaders", dirs_exist_ok=True)  # those of the frozen runs
    return place


def edit(path, change):
    """Change a JSON file in place."""
    value = read_json(path)
    change(value)
    write_json(path, value)


def renamed(value, rename):
    """A JSON value with every text, keys included, put through `rename`."""
    if isinstance(value, dict):
        return {rename(key): renamed(item, rename) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, rename) for item in value]
    return rename(value) if isinstance(value, str) else value


def swapper(one, other):
    """A function of a text: each of two parts stands in the place of the other."""
    return lambda text: text.replace(one, "\0").replace(other, one).replace("\0", other)


def reseal(root, study):
    """Differences, SHA-256 of results, the seal of the checkpoint checks and the ledger's digests made to fit."""
    folder, found = root / "research/matched_training", {}

    def fit_results(results):
        runs = results["runs"]
        bits = {name: run["score"]["bits_per_byte"] for name, run in runs.items()}
        results["bits_per_byte_minus_baseline"] = {
            name: bits[name] - bits[f"baseline_s{name[-2:]}"] for name in bits if not name.startswith("baseline")}
        found.update({name: sha256_bytes(canonical_json(run)) for name, run in runs.items()})

    def fit_checkpoints(sealed):
        for name, entry in sealed["content"]["runs"].items():
            entry["files"]["result.json"] = found[name]
        sealed["sha256"] = sha256_bytes(canonical_json({key: sealed[key] for key in ("content", "sealed_at")}))

    def fit_ledger(ledger):
        for record in ledger["records"]["trainings"]:
            record["sha256"] = found.get(record["name"], record["sha256"])

    edit(folder / f"{study}.json", fit_results)
    edit(folder / f"checkpoints_{study}.json", fit_checkpoints)
    edit(root / f"research/resources/{study}.json", fit_ledger)


def relabel(root, study, one, other):
    """The runs of one condition, or of one seed as `_s43`, pass for those of another in all evidence of a study."""
    swap, folder = swapper(one, other), root / "research/matched_training"
    names = [folder / f"{prefix}{study}.json" for prefix in ("", "checkpoints_", "curves_")]
    for path in [*names, *(root / f"research/{question}/{study}.json" for question in ("token_bytes", "resources"))]:
        value = read_json(path)
        hashed = value.get("inputs")
        write_json(path, renamed(value, swap) | ({"inputs": hashed} if hashed else {}))
    listed = read_manifest(folder / f"runs_{study}.sha256")
    (folder / f"runs_{study}.sha256").write_bytes(
        format_manifest({"/".join([swap(name.split("/")[0]), *name.split("/")[1:]]): digest
                         for name, digest in listed.items()}))
    edit(folder / f"{study}.json", lambda v: [run.update(seed=int(name[-2:])) for name, run in v["runs"].items()])
    reseal(root, study)
