"""Before a model may see a reserved document: the protocol must be the frozen one, every checkpoint must be checked.

No model is made here. Whatever keeps the gate closed is an InputError, exit code 2: it is no finding about a model.
"""

from evidence import InputError, first_difference, input_list, read_json, write_json
from research.matched_training.saved_runs import baseline_of, file_digests, run_names
from research.matched_training.sealed import read_sealed, utc_now
from reserved import audit

DATA = ("tokenizer/tokenizer.json", "tokenizer/bytes_supplied.npy", "tokenizer/bytes_raw.npy",
        "validation/tokens.npy", "validation/lengths.npy", "validation/refill.npy")
METRIC = ("nats over ln 2 times supplied bytes, both summed over the targets with a positive supplied byte length; the "
          "baseline loader over the reserved documents that are not excluded, in their refill batches")
RELEASE = "no forward pass before every run's saved model has reproduced its official score exactly"
UNCERTAINTY = "none: one finite stream and these trained models; two seeds are no interval over training randomness"


def protocol_path(study):
    return study.evidence / f"protocol_{study.name}.json"


def result_path(study):
    return study.root / f"runs/{study.name}/report/confirmation.json"


def began_path(study):
    """Written before the first forward pass, so that a scoring which was broken off is on record, too."""
    return result_path(study).with_name("confirmation_began.json")


def scored_before(study):
    """Records of an earlier scoring, if there are any; each has a `began_at`."""
    records = began_path(study), result_path(study), study.evidence / f"{study.name}.json"
    return [path for path in records if path.exists()]


def checkpoints_path(study):
    return study.root / f"runs/{study.name}/report/checkpoints.json"


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


def require_protocol(study):
    """The frozen protocol's record; InputError unless it is sealed and what the study's files give today."""
    path = protocol_path(study)
    record = read_sealed(path, f"freeze_protocol.py --study {study.name}")
    difference = first_difference(record["content"], protocol_content(study))
    if difference:
        raise InputError(f"{path}: not the protocol that today's files give, at {difference}")
    return record


def require_checkpoints(study):
    """The checkpoint evidence's record; InputError unless every run is in it, passed, and its files are unchanged."""
    path, make_it = checkpoints_path(study), f"verify_checkpoints.py --study {study.name}"
    record = read_sealed(path, make_it)
    checked, runs = record["content"]["runs"], run_names(study.protocol)
    absent = [name for name in runs if name not in checked]
    if absent:
        raise InputError(f"{path}: no check of {', '.join(absent)}; run {make_it}")
    for name in runs:
        entry = checked[name]
        if entry["findings"] or entry.get("rescored") != entry["score"]:
            what = "; ".join(entry["findings"]) or "rescored is not the run's score"
            raise InputError(f"{path}: {name}: the check failed: {what}")
        run = study.root / "runs" / study.name / name
        found = {"files": file_digests(run), "score": read_json(run / "result.json")["score"]}
        difference = first_difference({key: entry[key] for key in found}, found, name)
        if difference:
            raise InputError(f"{path}: checked other files than are there: {difference}; run {make_it}")
    return record


def begin(study, protocol):
    """The time at which scoring ever began; put on record, with the protocol's hash, before the first forward pass."""
    path = began_path(study)
    if not path.exists():
        write_json(path, {"began_at": utc_now(), "protocol_sha256": protocol["sha256"]})
    return read_json(path)["began_at"]


def require_open(study):
    """(protocol, checkpoints) records; InputError says what keeps the gate closed."""
    sealed = {protocol_path(study): require_protocol(study), checkpoints_path(study): require_checkpoints(study)}
    for scored in scored_before(study):
        began = read_json(scored)["began_at"]
        for path, record in sealed.items():
            if record["sealed_at"] > began:
                raise InputError(f"{path}: post-dated: sealed at {record['sealed_at']}, but {scored} says that scoring "
                                 f"began at {began}")
    return tuple(sealed.values())
