"""The records that a study's runs and scorings leave behind, as sum_resources.py sums them.

Paths are named from the runs folder on, as in `runs/demo/ledger.jsonl`, wherever it lies. Nothing is estimated: a
number that no record holds is None.
"""

from evidence import InputError, parse_json, read_json, require_keys, sha256_file

LEDGER_KEYS = ("attempt", "device", "end", "event", "exit_status", "outcome", "run", "seconds", "start")
TRAINING_KEYS = ("attempts", "effective_targets", "flops_per_token", "peak_bytes", "rows", "seconds", "targets",
                 "total_flops", "updates")


def lines_of(path):
    """The JSON objects of a .jsonl file, without a last line that was torn."""
    return [parse_json(line, f"{path}:{number}")
            for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1)]


def training_directories(folder):
    """[(kind, directory)] of all runs and sweep trainings that were begun, in the order of their names."""
    runs = [("run", path.parent) for path in folder.glob("*/config.json")]
    swept = folder.with_name(f"sweep_{folder.name}").glob("*/*/*/config.json")
    return sorted([*runs, *(("sweep", path.parent) for path in swept)])


def name_of(kind, directory, folder):
    """A run's name, or a sweep's training as `sweep_NAME/<candidate>/<phase>/<run>`."""
    return directory.relative_to(folder if kind == "run" else folder.parent).as_posix()


def training(kind, directory, folder):
    """The record of one finished training, with the rows that it scored."""
    path = directory / "result.json"
    result = read_json(path)
    try:
        record = {key: result[key] for key in TRAINING_KEYS}
        scored, device = result["score"]["rows"], result["environment"]["device"]
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: not a result of train.py: {error} is missing") from None
    return {"name": name_of(kind, directory, folder), "kind": kind, "sha256": sha256_file(path),
            "device": device, "scored_rows": scored, **record}


def unfinished(kind, directory, folder):
    """What a training without a result has logged; a last update that was under way is in no log."""
    path = directory / "metrics.jsonl"
    logged = lines_of(path) if path.exists() else []
    return {"name": name_of(kind, directory, folder), "kind": kind, "updates": len(logged),
            "targets": sum(line["targets"] for line in logged), "seconds": logged[-1]["seconds"] if logged else 0.0}


def reservations(path):
    """A record for each reservation in a ledger, in order of its start; one without an end has the outcome "open"."""
    found = {}
    for number, entry in enumerate(lines_of(path), 1):
        require_keys(entry, LEDGER_KEYS, f"{path}:{number}")
        key = entry["run"], entry["attempt"]
        found[key] = {"run": entry["run"], "attempt": entry["attempt"], "exit_status": entry["exit_status"],
                      "device": entry["device"]["name"] or entry["device"]["kind"], "seconds": entry["seconds"],
                      "outcome": entry["outcome"] or "open"}
    return list(found.values())


def scoring(kind, run, positions, seconds):
    return {"kind": kind, "run": run, "forward_positions": positions, "seconds": seconds}


def scorings(folder, trainings):
    """A record for each scoring at hand: official, of checkpoints again, of the confirmation and of source windows."""
    context = {record["name"]: record["targets"] // record["rows"] for record in trainings}
    found = [scoring(f"official_{record['kind']}", record["name"], record["scored_rows"] * context[record["name"]],
                     record["seconds"]["score"]) for record in trainings]
    path = folder / "report/checkpoints.json"
    if path.exists():
        found += [scoring("checkpoints", run, entry.get("forward_positions", 0), None)
                  for run, entry in sorted(read_json(path)["content"]["runs"].items())]
    path = folder / "report/confirmation.json"
    if path.exists():
        found += [scoring("confirmation", run, entry["score"]["rows"] * context[run], entry["seconds"])
                  for run, entry in sorted(read_json(path)["runs"].items())]
    for path in sorted(folder.glob("windows/*/*.json")):
        record = read_json(path)
        if "forward_positions" in record and "run" in record:  # not the selection, nor what is analysed from these
            kind = f"windows_{path.parent.name}"
            found.append(scoring(kind, record["run"], record["forward_positions"], record["seconds"]))
    return found


def sources(folder):
    """[{"path", "sha256"}] of the files that hold no result of a training but were read."""
    names = ("ledger.jsonl", "report/checkpoints.json", "report/confirmation.json")
    paths = [*(folder / name for name in names), *folder.glob("windows/*/*.json")]
    return [{"path": f"runs/{folder.name}/{path.relative_to(folder).as_posix()}", "sha256": sha256_file(path)}
            for path in sorted(paths) if path.exists()]


def read_records(folder):
    """{"trainings", "unfinished", "reservations", "scorings"} of runs/NAME and its sweep; reservations None without
    a ledger."""
    if not folder.is_dir():
        raise InputError(f"{folder}: missing; run `make runs` and `make run-all` of the study first")
    begun, ledger = training_directories(folder), folder / "ledger.jsonl"
    done = [item for item in begun if (item[1] / "result.json").exists()]
    trainings = [training(*item, folder) for item in done]
    if not trainings:
        raise InputError(f"{folder}: no finished training; run `make run-all STUDY={folder.name}` first")
    try:
        found = scorings(folder, trainings)
    except (KeyError, TypeError) as error:
        raise InputError(f"{folder}: a scoring's record lacks {error}, or is of a run without a result") from None
    return {"trainings": trainings, "unfinished": [unfinished(*item, folder) for item in begun if item not in done],
            "reservations": reservations(ledger) if ledger.exists() else None, "scorings": found}
