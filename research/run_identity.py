"""Is a frozen result the run of its condition and its seed? A module of verify_training_table.py.

The label of a result could be wrong, but the SHA-256 that its run recorded cannot. This module writes the settings of a
run again from the protocol, byte for byte, for the condition and seed of its label; they must have the SHA-256 that
the result names. So must the loader of the condition, the prepared data, and the rows that the stream audit derived. It
does not use generate_runs.py. Standard library only.
"""

import itertools

from evidence import canonical_json, read_json_if_there, sha256_bytes, sha256_file
from manifest import read_manifest

SECTIONS = ("evaluation", "model", "optimizer", "packing", "training")


def settings(protocol, digest, condition, seed, inputs):
    """Return the bytes of the config.json of one run, generated and prepared in the repository's own folders.

    digest: SHA-256 of the protocol's file. inputs: {prepared file: SHA-256}. Special tokens follow all ordinary ones.
    """
    tokenizer, study = protocol["tokenizer"], protocol["study"]
    data = {"directory": f"../../../data/{protocol.get('prepared', study)}", "files": inputs}
    bos = tokenizer["vocabulary"] - len(tokenizer["specials"]) + tokenizer["specials"].index(tokenizer["bos"])
    optional = {"captures": protocol["captures"]} if "captures" in protocol else {}
    if condition in protocol.get("edits", {}):
        optional["edits"] = protocol["edits"][condition]
    return canonical_json({
        **optional, **{name: protocol[name] for name in SECTIONS}, "bos": bos, "condition": condition, "seed": seed,
        "data": data, "study": study, "protocol_sha256": digest,
        "loader": f"{protocol['conditions'][condition]}.py", "vocabulary": tokenizer["vocabulary"]})


def model_size(model, vocabulary, context):
    """Return (parameters, FLOPs a trained token) of a protocol's section `model` (paper, section 4).

    Attention has four square matrices, and the MLP is four times wider than the model. Every second layer, counted from
    the last, has value embeddings and a gate. A letter S is a window of half the context; the last layer always sees
    the whole context.
    """
    width, layers, pattern = model["width"], model["layers"], model["window_pattern"]
    gated = len(range((layers - 1) % 2, layers, 2))
    multiplied = vocabulary * width + 12 * layers * width**2 + gated * model["gate_channels"] * model["heads"]
    looked_up = (1 + gated) * vocabulary * width + 2 * layers
    short = sum(pattern[layer % len(pattern)] == "S" for layer in range(layers - 1))
    windows = short * (context // 2) + (layers - short) * context
    return multiplied + looked_up, 6 * multiplied + 12 * width * windows


def positions_of(result):
    """Return the positions that a run computed; a result without that key is of a run that padded and masked none."""
    return result.get("positions", result["targets"])


def check_protocol(checks, protocol, digest, runs):
    """Check that names, settings, sizes and budgets of all runs are those of the protocol."""
    pairs = protocol.get("runs") or itertools.product(protocol["conditions"], protocol["seeds"])
    labels = {f"{condition}_s{seed}": (condition, seed) for condition, seed in pairs}
    checks.equal("runs of the protocol", sorted(labels), sorted(runs))
    context, training = protocol["packing"]["context"], protocol["training"]
    rows = training["updates"] * training["accumulation"] * training["microbatch"]
    parameters, flops = model_size(protocol["model"], protocol["tokenizer"]["vocabulary"], context)
    expected = {"study": protocol["study"], "parameters": parameters, "flops_per_token": flops, "rows": rows,
                "updates": training["updates"]}
    for name in sorted(labels.keys() & runs.keys()):
        result, digests = runs[name], runs[name]["digests"]
        given = settings(protocol, digest, *labels[name], digests["inputs"])
        checks.equal(f"{name}: SHA-256 of its settings", digests["config"], sha256_bytes(given))
        checks.equal(f"{name}: size and budget of the protocol", {key: result[key] for key in expected}, expected)
        checks.expect(positions_of(result) <= rows * context,
                      f"{name}: {positions_of(result)} positions in {rows} rows of {context}")


def check_loaders(checks, protocol, runs, root):
    """Check that each run's loader.py is the loader of its condition, as loaders/ or a supplement holds it."""
    for name, result in runs.items():
        file = f"{protocol['conditions'].get(result['condition'])}.py"
        places = root / "loaders" / file, *sorted(root.glob(f"supplement_v*/loaders/{file}"))
        versions = [sha256_file(path) for path in places if path.exists()]
        if versions:
            digest = result["digests"]["code"]["loader.py"]
            checks.equal(f"{name}: loader.py is {file}", digest, digest if digest in versions else versions[0])
        else:
            print(f"left out {places[0]}: not here")


def check_audit(checks, audit, runs):
    """Check that the plans, rows and targets of a run are those that the stream audit derived.

    An edit of the plan changes the rows, and the audit is of the plan before the edit.
    """
    plan = audit["evaluation"]["plan_sha256"]
    for name, result in runs.items():
        record = audit["training"].get(result["condition"], {})
        expected = {"plan": record.get("plan_sha256"), "evaluation_plan": plan}
        if "edits" not in result:
            expected["rows"] = record.get("rows_sha256")
            checks.equal(f"{name}: targets of the stream audit", record.get("targets"), result["effective_targets"])
        checks.equal(f"{name}: plans and rows of the stream audit",
                     {key: result["digests"][key] for key in expected}, expected)


def check_data(checks, manifest, runs):
    """Check that the prepared files which each run names are those of the study's manifest."""
    listed = read_manifest(manifest)
    for name, result in runs.items():
        inputs = result["digests"]["inputs"]
        checks.equal(f"{name}: prepared data of {manifest.name}", {key: listed.get(key) for key in inputs}, inputs)


def check_bindings(checks, study, runs, root):
    """Make all of these checks for {run: result} of a study; what is missing below `root` is left out by name."""
    path = root / f"protocols/{study}.json"
    protocol = read_json_if_there(path)
    if protocol:
        check_protocol(checks, protocol, sha256_file(path), runs)
        check_loaders(checks, protocol, runs, root)
    if audit := read_json_if_there(root / f"research/source_exclusion/{study}.json"):
        check_audit(checks, audit, runs)
    manifest = root / f"manifests/{protocol.get('prepared', study) if protocol else study}.sha256"
    if manifest.exists():
        check_data(checks, manifest, runs)
    else:
        print(f"left out {manifest}: not here")
