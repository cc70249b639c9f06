"""Do the frozen numbers of this directory follow from the lengths, documents and targets that they rest on?

The verifier derives every number of the batch, chunking, target and accumulation files again, without the code that
wrote them. What models, collators and corpora did cannot be derived; there, the parts must agree with each other. Each
number that does not follow is named.

    python research/batch_boundaries/verify_batch_boundaries.py [--study NAME ...] [--root DIR]

Reads   research/batch_boundaries/*.json and protocols/*.json below --root
Writes  nothing
Needs   NumPy
About   five seconds

Some values are bound by manifests/frozen.sha256 alone, which check_manifests.py checks. In boundaries.json,
collators.json, diagnose_matrix.json and split_*.json these are texts, names, settings and versions; what the batches of
a collator contain beside input_ids and labels; the counts of a collator but its effective targets; in the matrix the
statuses of items without a planted fault, and arrays beside the inputs, labels and loss masks; and measured differences
and counts that keep their bounds.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import Checks, parser, read_json, require, run_script
from research.batch_boundaries import reference_batches, reference_matrix, reference_records

ROOT = Path(__file__).resolve().parents[2]

BY_STUDY = ("chunking_", "split_", "targets_")
REQUIRED = ("accumulation.json", "batch_note.json", "chunking_note.json")


def check_equal(checks, name, content, derived, given):
    """Check that `content` without its inputs and the `given` keys equals what was derived."""
    found = {key: value for key, value in content.items() if key not in ("inputs", *given)}
    checks.equal(name, found, derived, f"{name}: derived again")


def protocol_packing(root, study):
    return read_json(root / "protocols" / f"{study}.json")["packing"]


def check_batch(checks, name, content, root):
    check_equal(checks, name, content, reference_batches.note_batch(content), ())
    counts = {view: found["counts"]["effective_targets"] for view, found in content["views"].items()}
    print(f"     effective targets {counts}")


def check_chunking(checks, name, content, root):
    note = content["source"] == "note"
    block = 4 if note else protocol_packing(root, content["source"])["context"]
    if note:
        checks.expect(content["histogram"] == {"10": 1}, f"{name}: one document of ten: {content['histogram']}")
    check_equal(checks, name, content, reference_batches.chunking(content, block), ())
    never = {design: found["targets_never_scored"] for design, found in content["designs"].items()}
    print(f"     targets never scored {never}")


def check_targets(checks, name, content, root):
    packing = protocol_packing(root, content["study"])
    derived = reference_batches.update_targets(content, packing["context"], packing["buffer_size"])
    check_equal(checks, name, content, derived, ("study", "refill", "arrivals"))
    documents = len(content["arrivals"])
    checks.expect(documents == sum(content["refill"]), f"{name}: {documents} arrivals, refill {sum(content['refill'])}")
    print(f"     targets {({loader: found['update']['targets'] for loader, found in content['loaders'].items()})}")


def check_accumulation(checks, name, content, root):
    check_equal(checks, name, content, reference_batches.accumulation(content), ())
    print(f"     by target {({case: found['by_target'] for case, found in content['cases'].items()})}")


def check_boundaries(checks, name, content, root):
    checks.expect(set(content["semantics"]) == {"continuous", "independent"}, f"{name}: both semantics")
    for semantics, found in content["semantics"].items():
        where, skipped = f"{name}: {semantics}", reference_records.INDEPENDENCE if semantics == "continuous" else []
        check_equal(checks, where, found["exact"], reference_records.exact_facts(semantics, content["documents"]), ())
        broken = reference_records.broken_bounds(found["bounded"])
        checks.expect(not broken, f"{where}: {len(found['bounded'])} measured differences keep their bound: {broken}")
        named = ", ".join(found["not_applied"]) or "none"
        checks.expect(found["not_applied"] == skipped, f"{where}: not applied: {named}")


def check_collators(checks, name, content, root):
    for number, case in enumerate(content["cases"]):
        found = reference_records.collator_differences(case)
        where = f"{name}: cases[{number}] {case['function']}, {case['options']['semantics']}"
        checks.expect(not found, f"{where}: {'; '.join(found) or 'counts follow from its batches'}")


def check_diagnose(checks, name, content, root):
    for form, record in content["forms"].items():
        found = reference_matrix.form_differences(record, content["faults"])
        checks.expect(not found, f"{name}: {form}: {'; '.join(found) or 'its batches and verdicts agree'}")
    totals = reference_matrix.totals(content["forms"])
    checks.equal(f"{name}: totals", content["totals"], totals, f"{name}: {totals}")


def check_split(checks, name, content, root):
    found = reference_records.split_differences(content)
    checks.expect(not found, f"{name}: {'; '.join(found) or 'groups, documents and duplicates agree'}")


CHECKERS = {
    "accumulation": check_accumulation,
    "batch": check_batch,
    "boundaries": check_boundaries,
    "collators": check_collators,
    "diagnose": check_diagnose,
    "split": check_split,
    "chunking": check_chunking,
    "targets": check_targets,
}


def check_file(checks, path, root):
    """Make all checks of one frozen file."""
    content = read_json(path)
    checker = CHECKERS.get(path.stem.partition("_")[0])
    if checker is None:
        checks.expect(False, f"{path.name}: no check knows this file")
        return
    with checks.attempt(path.name):
        checker(checks, path.name, content, root)


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", nargs="+", metavar="NAME",
                           help="check the evidence on these studies and on no study (default: all of it)")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    options = arguments.parse_args(argv)
    folder = options.root / "research/batch_boundaries"
    files = sorted(folder.glob("*.json"))
    missing = sorted(set(REQUIRED) - {path.name for path in files})
    require(not missing, folder, f"missing {', '.join(missing)}; run the scripts of its README")
    checks = Checks()
    for path in files:
        study = path.stem.partition("_")[2] if path.stem.startswith(BY_STUDY) else None
        if options.study is None or study in (None, "note", *options.study):
            check_file(checks, path, options.root)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
