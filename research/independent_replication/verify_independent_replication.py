"""Is the attributed record of an independent replication consistent with itself and with the paper's printed numbers?

record.json holds what the paper's version 2 reports of another author's replication (section 5.9), as printed strings.
This project has not inspected it: the checks are arithmetic. A printed decimal represents every value that rounds to
it.

    python research/independent_replication/verify_independent_replication.py [--root DIR]

Reads   record.json beside this script and, where it exists, research/published_tables/version_2.json
Writes  nothing
Needs   Python's standard library
About   one second
"""

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import Checks, parser, read_json, read_json_if_there, require_keys, run_script

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "research/independent_replication"
KEYS = ("costs", "design", "outcome", "reported_checks", "scores", "source", "status")
STATUS = "attributed, not inspected by us"
REPORTED = {  # key of version_2.json's group `peer`: where record.json holds the same string
    "audit_seconds": ("costs", "audit_seconds"), "crop_seed": ("design", "crop_seed"),
    "delta": ("scores", "random_crop_minus_source"), "gpu": ("costs", "gpu"),
    "our_crop_seed": ("design", "paper_crop_seed"), "our_gpu": ("costs", "paper_gpu"),
    "peak_mib": ("scores", "source", "peak_mib"), "random_bpb": ("scores", "random_crop", "bits_per_byte"),
    "random_ce": ("scores", "random_crop", "cross_entropy"), "random_loop": ("scores", "random_crop", "loop_seconds"),
    "random_perplexity": ("scores", "random_crop", "perplexity"),
    "reservation_seconds": ("costs", "reservation_seconds"), "seed": ("design", "seed"),
    "source_bpb": ("scores", "source", "bits_per_byte"), "source_ce": ("scores", "source", "cross_entropy"),
    "source_loop": ("scores", "source", "loop_seconds"), "source_perplexity": ("scores", "source", "perplexity"),
    "updates": ("design", "updates"),
}
RESERVATIONS = ("natural_reserved", "census_reserved", "order_reserved", "failed_reserved", "comparator_reserved")


def number(text):
    """Return the value of a printed number."""
    return float(text.replace(",", ""))


def half(text):
    """Return half a unit of the last printed digit, 0 for a whole number."""
    _, point, decimals = text.partition(".")
    return 0.5 * 10 ** -len(decimals) if point else 0.0


def at(record, path):
    """Return the string at a path of keys; a key that is missing is a KeyError."""
    for key in path:
        record = record[key]
    return record


def check_arithmetic(checks, record):
    """Check the relations between the printed scores."""
    source, crop = record["scores"]["source"], record["scores"]["random_crop"]
    delta, bits = record["scores"]["random_crop_minus_source"], [crop["bits_per_byte"], source["bits_per_byte"]]
    apart = abs(number(bits[0]) - number(bits[1]) - number(delta))
    slack = sum(map(half, [*bits, delta]))
    checks.expect(apart <= slack + 1e-15, f"difference: {bits[0]} - {bits[1]} = {delta}, within {slack:.1e}")
    for name, score in (("source", source), ("random_crop", crop)):
        entropy, perplexity = score["cross_entropy"], score["perplexity"]
        slack = half(perplexity) + number(perplexity) * half(entropy)
        apart = abs(math.exp(number(entropy)) - number(perplexity))
        checks.expect(apart <= slack * 1.01, f"{name}: exp({entropy}) = {perplexity}, within {slack:.1e}")
    checks.expect(crop["peak_mib"] == source["peak_mib"], f"peak memory: {crop['peak_mib']} MiB for both runs")
    checks.expect(number(crop["loop_seconds"]) < number(record["costs"]["reservation_seconds"]),
                  f"the reservation of {record['costs']['reservation_seconds']} s contains the candidate's loop")


def bytes_per_target(score, bits, entropy):
    """Return the range of supplied bytes per target that a printed score allows."""
    low = (number(score[entropy]) - half(score[entropy])) / (math.log(2) * (number(score[bits]) + half(score[bits])))
    high = (number(score[entropy]) + half(score[entropy])) / (math.log(2) * (number(score[bits]) - half(score[bits])))
    return low, high


def check_paper(checks, record, paper):
    """Compare the record with the numbers that the paper's version 2 prints."""
    groups, identifiers = paper["groups"], paper["identifiers"]
    for key, path in REPORTED.items():
        checks.equal(f"{'.'.join(path)} as printed", at(record, path), groups["peer"]["values"][key])
    stated = {key: record["source"][key] for key in ("comment", "revision", "date")}
    checks.equal("source as printed", stated, {"comment": identifiers["peer_comment"],
                                               "revision": identifiers["peer_revision"],
                                               "date": identifiers["peer_day"]})
    training, samples = groups["training"]["values"], groups["setup"]["values"]
    low, high = bytes_per_target(training["baseline_s43"], "bpb", "ce")
    for name in ("source", "random_crop"):
        least, most = bytes_per_target(record["scores"][name], "bits_per_byte", "cross_entropy")
        checks.expect(least <= high and low <= most,
                      f"{name}: {least:.6f} bytes per target, as in the paper's official population")
    differences = [number(training[f"random_crop_s{seed}"]["bpb"]) - number(training[f"baseline_s{seed}"]["bpb"])
                   for seed in (43, 44)]
    own = number(record["scores"]["random_crop_minus_source"])
    checks.expect(all(value * own > 0 for value in differences),
                  f"sign: {own:+.10f}, and {differences[0]:+.8f} and {differences[1]:+.8f} in the paper's section 5.3")
    checks.expect(record["design"]["crop_seed"] != samples["span_seed"] == record["design"]["paper_crop_seed"],
                  f"crop seed {record['design']['crop_seed']} is not the paper's {samples['span_seed']}")
    resources = groups["resources"]["values"]
    total = sum(number(resources[key]) for key in RESERVATIONS)
    checks.expect(abs(total - number(resources["reserved"])) < 0.05,
                  f"the paper's {resources['reserved']} reserved seconds do not contain the record's")


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    root = arguments.parse_args(argv).root
    path, checks = root / QUESTION / "record.json", Checks()
    record = read_json(path)
    require_keys(record, KEYS, path)
    checks.equal("status", record["status"], STATUS)
    with checks.attempt(path.name):
        check_arithmetic(checks, record)
        if paper := read_json_if_there(root / "research/published_tables/version_2.json"):
            check_paper(checks, record, paper)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
