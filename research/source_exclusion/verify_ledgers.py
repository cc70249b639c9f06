"""Do the frozen stream audits balance, and agree with each other, with lengths, protocol and trained runs?

verify_source_exclusion.py derives every number again from prepared data, in a minute. Without data, in a second, this
script holds the audits against their own identities: every token in one place, every document in one state, every share
a ratio of two counts. It finds a number changed alone or with some neighbours; that a stream is the one packed, only
the data can tell.

    verify_ledgers.py [--root DIR]

Reads   {NAME,repeated_NAME,permutations_NAME,served_NAME,served_NAME_lossless}.json in research/source_exclusion below
        --root, of every protocols/NAME.json whose NAME.json is there; length_histogram_NAME.json there,
        manifests/NAME.sha256 and ../matched_training/NAME.json, each where it is there
Writes  nothing
Needs   Python's standard library. Under a second

A line a part, with its first value that differs. Exit 1: one differs.
"""

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import Checks, InputError, read_json, read_json_if_there, run_script, sha256_file
from manifest import read_manifest
from research.source_exclusion import rebuilt_ledgers as rebuilt
from research.source_exclusion.rebuilt_services import check_services

HERE = Path(__file__).resolve().parent

CUTS = ("segment_first", "segmented")  # loader, and policy, that the proposition is not of


class Study:
    """A protocol and what else of it is frozen; None for what is not here."""

    def __init__(self, root, path):
        self.name, self.root, self.protocol = path.stem, root, read_json(path)
        folder, manifest = root / "research/source_exclusion", root / f"manifests/{path.stem}.sha256"
        self.histogram = read_json_if_there(folder / f"length_histogram_{self.name}.json")
        self.pairs = self.histogram and self.histogram["histogram"]
        self.results = read_json_if_there(root / f"research/matched_training/{self.name}.json")
        self.listed = read_manifest(manifest) if manifest.exists() else None
        if self.listed is None:
            print(f"left out {manifest}: not here")
        self.audit, self.repeated, self.permutations, self.served, self.lossless = (
            read_json_if_there(folder / f"{name}.json") for name in (
                self.name, f"repeated_{self.name}", f"permutations_{self.name}", f"served_{self.name}",
                f"served_{self.name}_lossless"))

    def rows(self):
        training = self.protocol["training"]
        return training["updates"] * training["accumulation"] * training["microbatch"]


# ------------------------------------------------------------------------------------------ records


def part(checks, name, stated, expected):
    """One check: `stated` has the values that `expected` has, and may have more."""
    checks.equal(name, rebuilt.select(stated, expected), expected)


def check_record(checks, name, record, study, capacity, applies):
    """One audited stream against itself and the protocol's strata."""
    emitted, buffer_size = record["tokens"]["emitted"], study.protocol["packing"]["buffer_size"]
    edges = study.protocol["audit"]["strata"]
    part(checks, f"{name}: balance", record, rebuilt.expected_balance(record))
    part(checks, f"{name}: rows", record, rebuilt.expected_totals(record, capacity))
    part(checks, f"{name}: sums of strata", record, rebuilt.expected_sums(record))
    checks.equal(f"{name}: strata of the protocol", [[s["over"], s["up_to"]] for s in record["strata"]],
                 [list(pair) for pair in zip([0, *edges], [*edges, None])])
    strata = [rebuilt.expected_stratum(stratum, emitted) for stratum in record["strata"]]
    stated = [rebuilt.select(*pair) for pair in zip(record["strata"], strata)]
    checks.equal(f"{name}: balance and shares of the strata", stated, strata)
    kept = rebuilt.expected_protected(record, buffer_size, applies)
    part(checks, f"{name}: protected", record["protected"], kept)
    part(checks, f"{name}: over_capacity", record["over_capacity"], rebuilt.expected_over_capacity(record))
    checks.equal(f"{name}: positions", *rebuilt.positions(record))
    wrong = rebuilt.broken(record, capacity)
    checks.expect(not wrong, f"{name}: bounds that are not kept: {wrong or 'none'}")


def check_about(checks, name, content, study, context):
    """Study, sizes and inputs are those of the protocol and of the list of prepared data."""
    packing = study.protocol["packing"]
    part(checks, f"{name}: of the protocol", content,
         {"study": study.name, "capacity": context + 1, "buffer_size": packing["buffer_size"]})
    protocol = f"protocols/{study.name}.json"
    known = {protocol: sha256_file(study.root / protocol)}
    if study.listed is not None:
        known |= {f"data/{study.name}/{file}": digest for file, digest in study.listed.items()}
    inputs = [entry for entry in content["inputs"] if study.listed is not None or entry["path"] == protocol]
    checks.equal(f"{name}: inputs", {entry["path"]: entry["sha256"] for entry in inputs},
                 {entry["path"]: known.get(entry["path"]) for entry in inputs})


def check_corpus(checks, name, record, study):
    """Documents of the corpus in each stratum, from the length histogram."""
    stated = [stratum["documents"]["corpus"] for stratum in record["strata"]]
    counts = [rebuilt.arrivals(study.pairs, 1, s["over"], s["up_to"])[0] for s in record["strata"]]
    checks.equal(f"{name}: corpus of the length histogram", stated, counts)


# ------------------------------------------------------------------------------------------- audits


def check_audit(checks, study):
    """What the runs read and the official score samples, and that the trained runs read it."""
    audit, context = study.audit, study.protocol["packing"]["context"]
    check_about(checks, study.name, audit, study, context)
    conditions, scored = study.protocol["conditions"], study.protocol["evaluation"]["targets"] // context
    checks.equal(f"{study.name}: conditions", sorted(audit["training"]), sorted(conditions))
    streams = [(f"{study.name} {condition}", record, conditions.get(condition) not in CUTS, study.rows())
               for condition, record in audit["training"].items()]
    for name, record, applies, rows in [*streams, (f"{study.name} evaluation", audit["evaluation"], True, scored)]:
        checks.equal(f"{name}: rows of the protocol", record["rows"], rows)
        check_record(checks, name, record, study, context + 1, applies)
    for name, record, _, _ in streams if study.pairs else []:
        check_corpus(checks, name, record, study)
    for name, result in study.results["runs"].items() if study.results else []:
        check_run(checks, name, result, audit["training"].get(result["condition"]), audit["evaluation"])


def check_run(checks, name, result, record, evaluation):
    """Rows, targets and hashes of a trained run, from the audit of its condition, None where there is none."""
    stated = {key: record and record[key] for key in ("rows", "targets", "plan_sha256", "rows_sha256")}
    stated |= {"evaluation": [evaluation["rows"], evaluation["plan_sha256"]]}
    digests = result["digests"]
    checks.equal(f"{name}: audited stream of the trained run", stated, {
        "rows": result["rows"], "targets": result["targets"], "plan_sha256": digests["plan"],
        "rows_sha256": digests["rows"], "evaluation": [result["score"]["rows"], digests["evaluation_plan"]]})


def check_repeated(checks, study, content):
    """Whole passes: everything of the corpus has arrived, and the longest of it is protected."""
    settings = study.protocol["audit"]["repeated"]
    check_about(checks, "repeated", content, study, settings["context"])
    stated = [content["passes"], sorted(content["training"])]
    checks.equal("repeated: passes and policies", stated, [settings["passes"], sorted(settings["policies"])])
    capacity, passes = content["capacity"], content["passes"]
    for policy, record in content["training"].items():
        name = f"repeated {policy}"
        check_record(checks, name, record, study, capacity, policy not in CUTS)
        if not study.pairs:
            continue
        check_corpus(checks, name, record, study)
        arrived = [rebuilt.arrivals(study.pairs, passes, s["over"], s["up_to"]) for s in record["strata"]]
        checks.equal(f"{name}: arrivals of the length histogram",
                     [[s["documents"]["arrived"], s["tokens"]["arrived"]] for s in record["strata"]],
                     [list(counts) for counts in arrived])
        kept = rebuilt.longest(study.pairs, passes, capacity, content["buffer_size"])
        over = rebuilt.arrivals(study.pairs, passes, capacity)[0]
        stated = [record["protected"]["tokens"], record["protected"]["shortest"], record["over_capacity"]["arrived"]]
        checks.equal(f"{name}: longest of the length histogram", stated, [*kept, over])


def check_permutations(checks, study, content):
    """Other orders of the same documents: each balances, ranges are of the orders, the stored order is the audit's."""
    check_about(checks, "permutations", content, study, study.protocol["packing"]["context"])
    orders, emitted = content["orders"], content["rows"] * content["capacity"]
    checks.equal("permutations: policy, rows and seeds",
                 [content["policy"], content["rows"], [order["seed"] for order in orders]],
                 ["baseline", study.rows(), list(range(len(orders)))])
    rest = [{"arrived_tokens": emitted + order["discarded_tokens"] + order["buffered_tokens"], "started": 0,
             "protected_share": rebuilt.ratio(order["protected_tokens"], order["arrived_tokens"])} for order in orders]
    checks.equal("permutations: balance of each order", [rebuilt.select(*pair) for pair in zip(orders, rest)], rest)
    ranges = {}
    for column in content["ranges"]:
        values = sorted(order[column] for order in orders if order[column] is not None)
        ranges[column] = {"orders": len(values), "least": min(values, default=None), "most": max(values, default=None),
                          "median": statistics.median_low(values) if values else None}
    checks.equal("permutations: ranges", content["ranges"], ranges)
    if record := study.audit["training"].get("baseline"):
        first, kept = record["first_over_capacity_start"], record["protected"]
        checks.equal("permutations: stored order of the audit", content["as_stored"], {
            **{f"{name}_tokens": record["tokens"][name] for name in ("arrived", "discarded", "buffered")},
            "protected_tokens": kept["tokens"], "protected_share": kept["share_of_arrived"],
            "started": kept["started"], "startup_target": first and first["target_offset"]})


# ---------------------------------------------------------------------------------------------- main


def check_study(checks, study):
    """Every audit of a study that is here."""
    check_audit(checks, study)
    context = study.protocol["packing"]["context"]
    if study.histogram:
        check_about(checks, "length histogram", study.histogram, study, context)
    if study.repeated:
        check_repeated(checks, study, study.repeated)
    if study.permutations:
        check_permutations(checks, study, study.permutations)
    for policy, content in (("baseline", study.served), ("lossless", study.lossless)):
        if content:
            check_about(checks, f"served {policy}", content, study, context)
            check_services(checks, f"served {policy}", content, policy, study.pairs)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=HERE.parents[1], metavar="DIR", help="default: two folders up")
    root, checks = parser.parse_args(argv).root, Checks()
    for path in sorted((root / "protocols").glob("*.json")):
        if (root / f"research/source_exclusion/{path.name}").exists():
            print(f"study {path.stem}")
            with checks.attempt(path.stem):
                check_study(checks, Study(root, path))
    if not checks.made:
        raise InputError(f"{root / 'research/source_exclusion'}: no audit of a study of {root / 'protocols'}")
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
