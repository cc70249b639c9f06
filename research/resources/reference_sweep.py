"""Checks of the frozen sweep against the ledger's records of its trainings and against its protocol.

A candidate's speed follows from its targets, its seconds and the size of its model. Its score is measured once, and no
record repeats it.
"""

from evidence import read_json_if_there, sha256_file
from research.run_identity import model_size

VARIED = ("context", "heads", "microbatch", "width")


def folder_of(study, candidate, phase):
    """Return the beginning of the name that the ledger gives a candidate's training."""
    return f"sweep_{study}/" + "context{context}_width{width}_microbatch{microbatch}/".format(**candidate) + f"{phase}/"


def check_candidate(checks, record, candidate, name):
    """Derive every number of a candidate from the record of its training, except its score and its model's size."""
    seconds, flops = record["seconds"]["loop"], record["flops_per_token"] * record["targets"]
    derived = {**{key: record[key] for key in ("updates", "targets", "peak_bytes")}, "loop_seconds": seconds,
               "targets_per_second": record["targets"] / seconds, "flops_per_second": flops / seconds,
               "context": record["targets"] // record["rows"], "microbatch": record["rows"] // record["updates"]}
    checks.equal(f"{name}: from its record", {key: candidate[key] for key in derived}, derived)


def check_shapes(checks, sweep, base, frozen, trainings, study):
    """Compare candidates, seconds and scored rows with the protocol; count parameters and FLOPs from each shape."""
    shapes = [{key: candidate[key] for key in VARIED} for candidate in frozen["candidates"]]
    checks.equal(f"sweep_{study}: candidates and seconds of the protocol", [shapes, frozen["seconds"]],
                 [sweep["candidates"], sweep["seconds"]])
    run = f"{sweep['condition']}_s{sweep['seed']}"
    for candidate in frozen["candidates"]:
        context, name = candidate["context"], folder_of(study, candidate, "run") + run
        model = base["model"] | {key: candidate[key] for key in ("heads", "width")}
        parameters, flops = model_size(model, base["tokenizer"]["vocabulary"], context)
        checks.equal(f"{name}: parameters", candidate["parameters"], parameters)
        for phase, scored in (("calibration", context), ("run", sweep["evaluation_targets"])):
            updates = sweep["calibration_updates"] if phase == "calibration" else candidate["updates"]
            record = trainings.get(folder_of(study, candidate, phase) + run, {})
            expected = {"updates": updates, "targets": updates * candidate["microbatch"] * context, "device": "cpu",
                        "flops_per_token": flops, "scored_rows": scored // context}
            checks.equal(f"{folder_of(study, candidate, phase)}{run}: as the protocol says",
                         {key: record.get(key) for key in expected}, expected)


def check_sweep(checks, records, frozen, study, root):
    """Run all checks of the sweep; a file that does not exist below `root` is named and left out."""
    trainings = {record["name"]: record for record in records["trainings"] if record["kind"] == "sweep"}
    checks.equal(f"sweep_{study}: study", frozen["study"], study)
    for candidate in frozen["candidates"]:
        name = folder_of(study, candidate, "run")
        record = next((r for of, r in trainings.items() if of.startswith(name)), None)
        if record:
            check_candidate(checks, record, candidate, name)
        else:
            checks.expect(False, f"{name}: no training in the ledger")
    path = root / f"protocols/candidates_{study}.json"
    sweep = read_json_if_there(path)
    base = read_json_if_there(root / f"protocols/{sweep['base']}.json") if sweep else None
    if base:
        check_shapes(checks, sweep, base, frozen, trainings, study)
        entry = {"path": f"protocols/{path.name}", "sha256": sha256_file(path)}
        checks.expect(entry in frozen["inputs"], f"sweep_{study}: made from {path.name} {entry['sha256'][:16]}")
