"""Before a model may see a reserved document: the protocol must be the frozen one, every checkpoint must be checked.

No model is made here. Whatever keeps the gate closed is an InputError, exit code 2: it is no finding about a model.

A study is confirmed once. Where NAME.json is frozen, a scoring is a repetition, by these models or by others that were
trained anew: still under the frozen protocol, and with checks of the models that are there. Only then may the code of
the runs be another than the protocol names, and the checks be younger than the frozen scoring, which was of others.
"""

from evidence import InputError, first_difference, input_list, read_json, require_keys, write_json
from research.confirmation.reserved import audit
from research.saved_runs import baseline_of, file_digests, require_unchanged, run_names
from research.sealed import read_sealed, utc_now

DATA = ("tokenizer/tokenizer.json", "tokenizer/bytes_supplied.npy", "tokenizer/bytes_raw.npy",
        "validation/tokens.npy", "validation/lengths.npy", "validation/refill.npy")
METRIC = ("nats over ln 2 times supplied bytes, both summed over the targets with a positive supplied byte length; the "
          "baseline loader over the reserved documents that are not excluded, in their refill batches")
RELEASE = "no forward pass before every run's saved model has reproduced its official score exactly"
UNCERTAINTY = "none: one finite stream and these trained models; two seeds are no interval over training randomness"

# ------------------------------------------------------------------------------------------- records


def protocol_path(study):
    return study.evidence / f"protocol_{study.name}.json"


def frozen_path(study):
    """The first scoring, once it is frozen."""
    return study.evidence / f"{study.name}.json"


def result_path(study):
    return study.root / f"runs/{study.name}/report/confirmation.json"


def began_path(study):
    """Written before the first forward pass, so that a scoring which was broken off is on record, too."""
    return result_path(study).with_name("confirmation_began.json")


def scored_before(study):
    """Records of an earlier scoring, if there are any; each has a `began_at`."""
    return [path for path in (began_path(study), result_path(study), frozen_path(study)) if path.exists()]


def checkpoints_path(study):
    return study.root / f"runs/{study.name}/report/checkpoints.json"


def begin(study, protocol):
    """The time at which scoring ever began; put on record, with the protocol's hash, before the first forward pass."""
    path = began_path(study)
    if not path.exists():
        write_json(path, {"began_at": utc_now(), "protocol_sha256": protocol["sha256"]})
    return read_json(path)["began_at"]


# ------------------------------------------------------------------------------------------ protocol


def protocol_content(study):
    """All that decides the confirmation, derived anew from the protocols, the prepared data and the generated runs."""
    runs, manifest = run_names(study.protocol), study.root / f"runs/{study.name}/runs.sha256"
    if not manifest.exists():
        raise InputError(f"{manifest}: missing; generate the runs with: python generate_runs.py {study.protocol_path}")
    excluded = study.excluded()
    inputs = [study.protocol_path, study.evaluation_path, study.exclusions_path, manifest, *map(study.data, DATA)]
    return {
        "study": study.name, "runs": runs,
        "contrasts": [[name, baseline_of(name)] for name in runs if name != baseline_of(name)],
        "evaluation": read_json(study.evaluation_path), "packing": study.packing, "excluded": excluded,
        "stream": audit(study, excluded), "metric": METRIC, "release": RELEASE, "uncertainty": UNCERTAINTY,
        "inputs": input_list(inputs, study.root),
    }


def without_code(content):
    """A protocol's content but for the list of the runs' code and settings."""
    code = f"runs/{content['study']}/runs.sha256"
    return {**content, "inputs": [entry for entry in content["inputs"] if entry["path"] != code]}


def require_protocol(study):
    """The frozen protocol's record; InputError unless it is sealed and what the study's files give today."""
    path, today = protocol_path(study), protocol_content(study)
    record = read_sealed(path, f"freeze_protocol.py --study {study.name}")
    require_keys(record["content"], today, f"{path}: content")
    difference = first_difference(record["content"], today)
    if difference and frozen_path(study).exists():
        difference = first_difference(*map(without_code, (record["content"], today)))
        if difference is None:
            print(f"the runs' code is not that of {path.name}: this repeats the confirmation with runs of other code")
    if difference:
        raise InputError(f"{path}: not the protocol that today's files give, at {difference}")
    return record


# --------------------------------------------------------------------------------------- checkpoints


def require_check(entry, run, where):
    """InputError unless the entry says that the run was reproduced, and its files are the ones that are there."""
    findings = entry.get("findings") if isinstance(entry, dict) else f"no check, but {entry!r}"
    if findings != []:
        what = "; ".join(map(str, findings)) if isinstance(findings, list) else findings
        raise InputError(f"{where}: the check failed: {what}")
    require_keys(entry, ("files", "findings", "forward_positions", "rescored", "rescored_rows_sha256", "score"), where)
    found = {"files": file_digests(run), "score": read_json(run / "result.json")["score"]}
    if difference := first_difference({key: entry[key] for key in found}, found):
        raise InputError(f"{where}: checked other files than are there: {difference}; check again")
    official = {"rescored": entry["score"], "rescored_rows_sha256": found["files"]["evaluation_rows.npy"]}
    if difference := first_difference(official, {key: entry[key] for key in official}):
        raise InputError(f"{where}: the check failed: not the run's own: {difference}")
    require_unchanged(run)


def require_checkpoints(study):
    """The checkpoint evidence's record; InputError unless every run is in it, passed, and its files are unchanged."""
    path, make_it = checkpoints_path(study), f"verify_checkpoints.py --study {study.name}"
    record = read_sealed(path, make_it)
    require_keys(record["content"], ("environment", "inputs", "runs", "study"), f"{path}: content")
    checked, runs = record["content"]["runs"], run_names(study.protocol)
    absent = [name for name in runs if not isinstance(checked, dict) or name not in checked]
    if absent:
        raise InputError(f"{path}: no check of {', '.join(absent)}; run {make_it}")
    for name in runs:
        require_check(checked[name], study.root / "runs" / study.name / name, f"{path}: {name}")
    return record


# ---------------------------------------------------------------------------------------------- gate


def require_older(path, sealed_at, scored, began_at):
    if sealed_at > began_at:
        raise InputError(f"{path}: post-dated: sealed at {sealed_at}, but {scored} says that scoring began at "
                         f"{began_at}")


def require_open(study):
    """(protocol, checkpoints) records; InputError says what keeps the gate closed."""
    protocol, checkpoints = require_protocol(study), require_checkpoints(study)
    for scored in scored_before(study):
        record = read_json(scored)
        require_older(protocol_path(study), protocol["sealed_at"], scored, record["began_at"])
        if scored != frozen_path(study):
            require_older(checkpoints_path(study), checkpoints["sealed_at"], scored, record["began_at"])
        used = record["protocol_sha256"] if scored == began_path(study) else record["protocol"]["sha256"]
        if used != protocol["sha256"]:
            raise InputError(f"{scored}: scored under the protocol {used}, not under {protocol['sha256']}, which "
                             f"{protocol_path(study)} is now; a protocol is not replaced once a model was scored")
    return protocol, checkpoints
