"""Do the frozen numbers of this directory follow from the lengths, documents and targets that they rest on?

Every number of the batch, cutting, target and accumulation files is derived again without the code that wrote it; of
what models, collators and corpora did, which cannot be derived, the parts must agree with each other. A number that
does not follow, a digest that is not the manifest's and a file that no check knows exit 1, and are named.

Not checked here, and bound by manifests/frozen.sha256 alone (check_manifests.py): in boundaries.json, collators.json
and split_*.json what describes (texts, names, settings, versions); what a collator's batches hold beside input_ids and
labels, and its counts but those of effective targets; a measured difference or a count that keeps its bounds.

    verify_batch_boundaries.py [FOLDER]

Reads   *.json beside this file (or in FOLDER); protocols/ and manifests/ two folders up
Writes  nothing
Needs   NumPy
About   five seconds
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import Checks, InputError, read_json, run_script, sha256_file
from manifest import read_manifest
from research.batch_boundaries import recount_batches, recount_tools

HERE = Path(__file__).resolve().parent

REQUIRED = ("accumulation.json", "batch_note.json", "chunking_note.json")


def check_equal(checks, name, content, derived, given):
    """One check: `content` without its inputs and the `given` keys equals what was derived; a difference is named."""
    found = {key: value for key, value in content.items() if key not in ("inputs", *given)}
    checks.equal(name, found, derived, f"{name}: derived again")


def protocol_packing(root, study):
    return read_json(root / "protocols" / f"{study}.json")["packing"]


def check_batch(checks, name, content, root):
    check_equal(checks, name, content, recount_batches.note_batch(content), ())
    counts = {view: found["counts"]["effective_targets"] for view, found in content["views"].items()}
    print(f"     effective targets {counts}")


def check_chunking(checks, name, content, root):
    note = content["source"] == "note"
    block = 4 if note else protocol_packing(root, content["source"])["context"]
    if note:
        checks.expect(content["histogram"] == {"10": 1}, f"{name}: one document of ten: {content['histogram']}")
    check_equal(checks, name, content, recount_batches.chunking(content, block), ())
    never = {design: found["targets_never_scored"] for design, found in content["designs"].items()}
    print(f"     targets never scored {never}")


def check_targets(checks, name, content, root):
    packing = protocol_packing(root, content["study"])
    derived = recount_batches.update_targets(content, packing["context"], packing["buffer_size"])
    check_equal(checks, name, content, derived, ("study", "refill", "arrivals"))
    documents = len(content["arrivals"])
    checks.expect(documents == sum(content["refill"]), f"{name}: {documents} arrivals, refill {sum(content['refill'])}")
    print(f"     targets {({loader: found['update']['targets'] for loader, found in content['loaders'].items()})}")


def check_accumulation(checks, name, content, root):
    check_equal(checks, name, content, recount_batches.accumulation(content), ())
    print(f"     by target {({case: found['by_target'] for case, found in content['cases'].items()})}")


def check_boundaries(checks, name, content, root):
    checks.expect(set(content["semantics"]) == {"continuous", "independent"}, f"{name}: both semantics")
    for semantics, found in content["semantics"].items():
        where, skipped = f"{name}: {semantics}", recount_tools.INDEPENDENCE if semantics == "continuous" else []
        check_equal(checks, where, found["exact"], recount_tools.exact_facts(semantics, content["documents"]), ())
        broken = recount_tools.broken_bounds(found["bounded"])
        checks.expect(not broken, f"{where}: {len(found['bounded'])} measured differences keep their bound: {broken}")
        named = ", ".join(found["not_applied"]) or "none"
        checks.expect(found["not_applied"] == skipped, f"{where}: not applied: {named}")


def check_collators(checks, name, content, root):
    for number, case in enumerate(content["cases"]):
        found = recount_tools.collator_differences(case)
        where = f"{name}: cases[{number}] {case['function']}, {case['options']['semantics']}"
        checks.expect(not found, f"{where}: {'; '.join(found) or 'counts follow from its batches'}")


def check_split(checks, name, content, root):
    found = recount_tools.split_differences(content)
    checks.expect(not found, f"{name}: {'; '.join(found) or 'groups, documents and duplicates agree'}")


CHECKERS = {
    "accumulation": check_accumulation,
    "batch": check_batch,
    "boundaries": check_boundaries,
    "collators": check_collators,
    "split": check_split,
    "chunking": check_chunking,
    "targets": check_targets,
}


def known_digest(path, root):
    """SHA-256 of an input: a study's data by its manifest, any other file by its bytes."""
    top, *rest = path.split("/", 2)
    if top != "data":
        return sha256_file(root / path)
    study, name = rest
    return read_manifest(root / "manifests" / f"{study}.sha256").get(name)


def check_inputs(checks, name, content, root):
    """Digests of an evidence file's inputs are those that the repository knows."""
    for entry in content["inputs"]:
        known = known_digest(entry["path"], root)
        checks.expect(entry["sha256"] == known, f"{name}: {entry['path']}: {entry['sha256']}, known {known}")


def check_file(checks, path, root):
    """All checks of one frozen file; content that cannot even be derived from is a failed check."""
    content = read_json(path)
    checker = CHECKERS.get(path.stem.partition("_")[0])
    if checker is None:
        checks.expect(False, f"{path.name}: no check knows this file")
        return
    try:
        checker(checks, path.name, content, root)
        check_inputs(checks, path.name, content, root)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, RuntimeError, StopIteration) as error:
        checks.expect(False, f"{path.name}: cannot be derived: {type(error).__name__}: {error}")


def main(argv=None):
    """0 when all holds, 1 when a number does not follow, 2 when a file is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=HERE, help="default: beside this file")
    folder = parser.parse_args(argv).folder.resolve()
    files = sorted(folder.glob("*.json"))
    missing = sorted(set(REQUIRED) - {path.name for path in files})
    if missing:
        raise InputError(f"{folder}: missing {', '.join(missing)}; run the scripts of its README")
    checks = Checks()
    for path in files:
        check_file(checks, path, folder.parents[1])
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
