"""The records that the runs and scorings of a study leave behind, for sum_resources.py.

Paths begin with the runs folder, as in `runs/demo/ledger.jsonl`. Nothing is estimated: a number that no record holds is
None.
"""

from evidence import InputError, parse_json, read_json, require_keys, sha256_file

LEDGER_KEYS = ("attempt", "device", "end", "event", "exit_status", "outcome", "run", "seconds", "start")
TRAINING_KEYS = ("attempts", "effective_targets", "flops_per_token", "peak_bytes", "rows", "seconds", "targets",
                 "total_flops", "updates")


def lines_of(path):
    """Read the JSON objects of a .jsonl file; an incomplete last line is left out."""
    return [parse_json(line, f"{path}:{number}")
            for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1)]


def training_directories(folder):
    """List (kind, directory) of all runs and sweep trainings that have a directory, in the order of their names."""
    runs = [("run", path.parent) for path in folder.glob("*/config.json")]
    swept = folder.with_name(f"sweep_{folder.name}").glob("*/*/*/config.json")
    return sorted([*runs, *(("sweep", path.parent) for path in swept)])


def name_of(kind, directory, folder):
    """Name a run, or a training of the sweep as `sweep_NAME/<candidate>/<phase>/<run>`."""
    return directory.relative_to(folder if kind == "run" else folder.parent).as_posix()


def training(kind, directory, folder):
    """Read the record of one finished training, with the number of rows that it scored."""
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
    """Read what a training without a result has logged; an update that was under way is in no log."""
    path = directory / "metrics.jsonl"
    logged = lines_of(path) if path.exists() else []
    return {"name": name_of(kind, directory, folder), "kind": kind, "updates": len(logged),
            "targets": sum(line["targets"] for line in logged), "seconds": logged[-1]["seconds"] if logged else 0.0}


def reservations(path):
    """Return a record of each reservation, in the order of their starts; one without an end has the outcome "open"."""
    found = {}
    for number, entry in enumerate(lines_of(path), 1):
        require_keys(entry, LEDGER_KEYS, f"{path}:{number}")
        key = entry["run"], entry["attempt"]
        found[key] = {"run": entry["run"], "attempt": entry["attempt"], "exit_status": entry["exit_status"],
                      "device": entry["device"]["name"] or entry["device"]["kind"], "seconds": entry["seconds"],
                      "outcome": entry["outcome"] or "open"}
    return list(found.values())


def scoring(kind, run, positions, seconds):
    """Return the record of one scoring."""
    return {"kind": kind, "run": run, "forward_positions": positions, "seconds": seconds}


def scorings(folder, trainings):
    """Return a record of each scoring: official, checkpoints again, confirmation, source windows."""
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
    """Return the `inputs` entries of the files that were read besides the results of trainings."""
    names = ("ledger.jsonl", "report/checkpoints.json", "report/confirmation.json")
    paths = [*(folder / name for name in names), *folder.glob("windows/*/*.json")]
    return [{"path": f"runs/{folder.name}/{path.relative_to(folder).as_posix()}", "sha256": sha256_file(path)}
            for path in sorted(paths) if path.exists()]


def read_records(folder):
    """Read {"trainings", "unfinished", "reservations", "scorings"} of runs/NAME and its sweep.

    `reservations` is None where there is no ledger.
    """
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
        raise InputError(f"{folder}: the record of a scoring lacks {error}, or its run has no result") from None
    return {"trainings": trainings, "unfinished": [unfinished(*item, folder) for item in begun if item not in done],
            "reservations": reservations(ledger) if ledger.exists() else None, "scorings": found}
