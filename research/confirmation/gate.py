"""The gate of the confirmation: a model may see a reserved document only under the frozen protocol, once it is checked.

No model is made here. Whatever keeps the gate closed is an InputError with exit code 2, because it says nothing about a
model.

A study is confirmed once. Where NAME.json is frozen, a scoring is a repetition, by the same models or by models that
were trained anew. It still needs the frozen protocol and checks of the models that are there. Only then may the code of
the runs differ from the code that the protocol names, and the checks be younger than the frozen scoring.
"""

from evidence import first_difference, read_json, require, require_keys, write_json
from research.saved_runs import file_digests, require_unchanged, run_names
from research.sealed import read_sealed, utc_now

DATA = ("tokenizer/tokenizer.json", "tokenizer/bytes_supplied.npy", "tokenizer/bytes_raw.npy",
        "validation/tokens.npy", "validation/lengths.npy", "validation/refill.npy")
CONTENT = ("contrasts", "evaluation", "excluded", "inputs", "metric", "packing", "release", "runs", "stream", "study",
           "uncertainty")
CHECK = ("files", "findings", "forward_positions", "rescored", "rescored_rows_sha256", "score")

# ------------------------------------------------------------------------------------------- records


def protocol_path(reserved):
    return reserved.evidence / f"protocol_{reserved.study}.json"


def frozen_path(reserved):
    """Path of the first scoring, once it is frozen."""
    return reserved.evidence / f"{reserved.study}.json"


def result_path(reserved):
    return reserved.root / f"runs/{reserved.study}/report/confirmation.json"


def began_path(reserved):
    """Path of the record that is written before the first forward pass, so that an interrupted scoring leaves one."""
    return result_path(reserved).with_name("confirmation_began.json")


def checkpoints_path(reserved):
    return result_path(reserved).with_name("checkpoints.json")


def scored_before(reserved):
    """Return the paths of the records of an earlier scoring; each record has a `began_at`."""
    return [path for path in (began_path(reserved), result_path(reserved), frozen_path(reserved)) if path.exists()]


def begin(reserved, protocol):
    """Record, with the protocol's SHA-256, that scoring begins; return the time at which it first began."""
    path = began_path(reserved)
    if not path.exists():
        write_json(path, {"began_at": utc_now(), "protocol_sha256": protocol["sha256"]})
    return read_json(path)["began_at"]


# ------------------------------------------------------------------------------------------ protocol


def protocol_inputs(reserved):
    """Return the list `inputs` of a protocol: the files that decide it, by path and SHA-256."""
    runs = reserved.root / f"runs/{reserved.study}/runs.sha256"
    require(runs.exists(), runs, f"missing; generate the runs with: python generate_runs.py {reserved.protocol_path}")
    reserved.excluded()  # names the command that makes the exclusions
    return reserved.inputs(DATA, [reserved.protocol_path, reserved.evaluation_path, reserved.exclusions_path, runs])


def without_code(content):
    """Return a protocol's content without the input that lists the runs' code and settings."""
    code = f"runs/{content['study']}/runs.sha256"
    return {**content, "inputs": [entry for entry in content["inputs"] if entry["path"] != code]}


def require_same(reserved, content, today):
    """InputError unless `today`, the content of the study's protocol or part of it, is that of the frozen protocol.

    Once a scoring is frozen, the code of the runs may differ, and a line says so.
    """
    path, frozen = protocol_path(reserved), {key: content[key] for key in today}
    difference = first_difference(frozen, today)
    if difference and frozen_path(reserved).exists():
        difference = first_difference(without_code(frozen), without_code(today))
        if difference is None:
            print(f"the runs' code is not that of {path.name}: this repeats the confirmation with runs of other code")
    require(not difference, path, f"not the protocol that today's files give: it differs at {difference}")


def require_protocol(reserved, today=None):
    """Return the frozen protocol's record; InputError unless it is sealed and has the content `today`.

    By default only its study and its inputs must be today's. Its other content follows from the inputs;
    freeze_protocol.py and verify_confirmation.py derive it again.
    """
    path = protocol_path(reserved)
    record = read_sealed(path, f"freeze_protocol.py --study {reserved.study}")
    require_keys(record["content"], CONTENT, f"{path}: content")
    today = today or {"study": reserved.study, "inputs": protocol_inputs(reserved)}
    require_same(reserved, record["content"], today)
    return record


# --------------------------------------------------------------------------------------- checkpoints


def require_check(entry, run, where):
    """InputError unless a check says that the run was reproduced and the run's files are the ones it checked."""
    require_keys(entry, CHECK, where)
    require(entry["findings"] == [], f"{where}: findings", f"the check failed: {entry['findings']}")
    digests = file_digests(run)
    found = {"files": digests, "score": read_json(run / "result.json")["score"]}
    difference = first_difference({key: entry[key] for key in found}, found)
    require(not difference, where, f"other files were checked than are there: {difference}; check again")
    official = {"rescored": entry["score"], "rescored_rows_sha256": digests["evaluation_rows.npy"]}
    difference = first_difference(official, {key: entry[key] for key in official})
    require(not difference, where, f"the check failed: the model's score is not the run's own: {difference}")
    require_unchanged(run)


def require_checkpoints(reserved):
    """Return the record of the checkpoint checks; InputError unless it has every run, passed and unchanged since."""
    path, make_it = checkpoints_path(reserved), f"audit_checkpoints.py --study {reserved.study}"
    record = read_sealed(path, make_it)
    require_keys(record["content"], ("environment", "inputs", "runs", "study"), f"{path}: content")
    checked, runs = record["content"]["runs"], run_names(reserved.protocol)
    absent = [name for name in runs if name not in checked]
    require(not absent, f"{path}: runs", f"no check of {', '.join(absent)}; run {make_it}")
    for name in runs:
        require_check(checked[name], reserved.root / "runs" / reserved.study / name, f"{path}: {name}")
    return record


# ---------------------------------------------------------------------------------------------- gate


def require_older(path, sealed_at, scored, began_at):
    """InputError when the file at `path` was sealed after the scoring that is recorded at `scored` began."""
    require(sealed_at <= began_at, f"{path}: sealed_at",
            f"{sealed_at} is later than {began_at}, when scoring began according to {scored}")


def require_open(reserved):
    """Return the (protocol, checkpoints) records; InputError says what keeps the gate closed."""
    protocol, checkpoints = require_protocol(reserved), require_checkpoints(reserved)
    path = protocol_path(reserved)
    for scored in scored_before(reserved):
        record = read_json(scored)
        require_older(path, protocol["sealed_at"], scored, record["began_at"])
        if scored != frozen_path(reserved):
            require_older(checkpoints_path(reserved), checkpoints["sealed_at"], scored, record["began_at"])
        used = record["protocol_sha256"] if scored == began_path(reserved) else record["protocol"]["sha256"]
        require(used == protocol["sha256"], scored,
                f"scored under the protocol {used}, but {path} is {protocol['sha256']} now; a protocol is not replaced "
                "once a model was scored")
    return protocol, checkpoints
