"""Do the frozen token byte audits follow from their own bytes and counts and, where data is there, from the data?

    python research/token_bytes/verify_token_bytes.py [--study NAME ...] [--data DIR]

Reads   NAME.json beside this script (audit_token_bytes.py --freeze); ../matched_training/NAME.json, the protocol and
        ../source_exclusion/length_histogram_NAME.json where they are there, and data/NAME/ where it is prepared
Writes  nothing; prints the tables of README.md
Needs   Python's standard library; with prepared data NumPy. A second, with data of both studies half a minute

Always: both lengths and the class of every listed token from its bytes, by the verifier's own reading of UTF-8
(read_utf8.py); every sum, share and score; vocabulary and sizes of the streams from protocol and histogram. With data:
the tables from ranks.txt, the complete list of differing tokens, and every count, the rows by a packer of its own
(recount_tokens.py). Without data the counts of tokens are bound only by their sums. Exit 1 names what is false.
"""

import argparse
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import (
    Checks,
    InputError,
    read_json,
    read_json_if_there,
    require_keys,
    run_script,
    sha256_file,
)
from research.token_bytes.read_utf8 import kind, read_token

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

KEYS = ("classes", "differing_types", "inputs", "ordinary_types", "partial_types_of_equal_length", "reported", "score",
        "score_left_out", "streams", "study", "types", "vocabulary")
REPORTED = {"source": "paper, section 8", "differing_types": 138, "share_of_training_input_tokens": "about 0.24%"}
STREAMS = ("corpus", "inputs", "scored")
CLASSES = ("single_byte", "partial_alone", "partial_and_text", "several_partials")

# ------------------------------------------------------------------------------------------- tokens


def spelled(entry):
    """The bytes of a listed token; none where no token, or not its one spelling in hex, stands."""
    try:
        data = bytes.fromhex(entry["bytes"])
    except (TypeError, ValueError):
        return b""
    return data if data.hex() == entry["bytes"] else b""


def check_types(checks, evidence):
    """Lengths and class of every listed token, and that the list can be a list of differing tokens."""
    types = evidence["types"]
    broken = [entry["id"] for entry in types if not spelled(entry)]
    checks.expect(not broken, f"tokens whose bytes are no hex digits in pairs: {broken or 'none'}")
    if broken:
        return
    derived = []
    for entry in types:
        data = spelled(entry)
        derived.append({**entry, "supplied": read_token(data)[0], "raw": len(data), "class": kind(data)})
    checks.equal(f"lengths and classes of {len(types)} tokens", types, derived)
    ids = [entry["id"] for entry in types]
    checks.expect(ids == sorted(set(ids)) and set(ids) <= set(range(evidence["ordinary_types"])),
                  f"ids rise, below {evidence['ordinary_types']}")
    same = [entry["id"] for entry in types if entry["supplied"] == entry["raw"]]
    checks.expect(not same, f"tokens listed though their lengths are equal: {same or 'none'}")
    single = sorted(entry["bytes"] for entry in types if entry["class"] == "single_byte")
    checks.expect(single == [f"{byte:02x}" for byte in range(128, 256)], f"all 128 bytes over 7f: {len(single)}")
    checks.equal("differing_types", evidence["differing_types"], len(types))
    checks.equal("the paper's numbers, as reported", evidence["reported"], REPORTED)


def check_sums(checks, evidence):
    """Totals of every stream and class from the listed tokens."""
    types, streams = evidence["types"], evidence["streams"]
    for name in STREAMS:
        stream, counts = streams[name], [entry["counts"][name] for entry in types]
        excess = sum(n * (entry["supplied"] - entry["raw"]) for n, entry in zip(counts, types))
        checks.equal(f"{name}: differing", stream["differing"], sum(counts))
        checks.equal(f"{name}: share", stream["share"], sum(counts) / stream["tokens"])
        checks.equal(f"{name}: supplied less raw bytes", stream["supplied_bytes"] - stream["raw_bytes"], excess)
        checks.expect(min(counts) >= 0 and 0 <= stream["bos"] <= stream["tokens"] - sum(counts) <= stream["raw_bytes"],
                      f"{name}: {stream['tokens']} tokens, {stream['bos']} of them BOS")
    checks.equal("classes", {name: entry["types"] for name, entry in evidence["classes"].items()},
                 {name: sum(entry["class"] == name for entry in types) for name in CLASSES})
    for name in CLASSES:
        found = {s: sum(e["counts"][s] for e in types if e["class"] == name) for s in STREAMS}
        checks.equal(f"{name}: counts", evidence["classes"][name]["counts"], found)


def check_sizes(checks, evidence, protocol, histogram):
    """Vocabulary and sizes of the streams are those of protocol and frozen length histogram, None where not here.

    All ids but the specials are ordinary; the corpus has one BOS a document.
    """
    if protocol:
        size, special = protocol["tokenizer"]["vocabulary"], len(protocol["tokenizer"]["specials"])
        context, training = protocol["packing"]["context"], protocol["training"]
        rows = training["updates"] * training["accumulation"] * training["microbatch"]
        checks.equal("vocabulary and ordinary types of the protocol",
                     [evidence["vocabulary"], evidence["ordinary_types"]], [size, size - special])
        checks.equal("tokens of inputs and scored of the protocol",
                     [evidence["streams"][name]["tokens"] for name in ("inputs", "scored")],
                     [rows * context, protocol["evaluation"]["targets"]])
    if histogram:
        corpus = evidence["streams"]["corpus"]
        checks.equal("corpus: BOS and tokens of the length histogram", [corpus["bos"], corpus["tokens"]],
                     [histogram["documents"], histogram["tokens"]])


# -------------------------------------------------------------------------------------------- score


def check_score(checks, evidence, results):
    """Every run's two scores, and the frozen results where they are there."""
    study, score = evidence["study"], evidence["score"]
    if score is None:
        checks.expect(not results.exists(), f"score left out, because {results} "
                      f"{'is not there' if not results.exists() else 'was not; it is: freeze the audit anew'}")
        return
    stream = evidence["streams"]["scored"]
    for run, found in score.items():
        supplied, raw = (found["nats"] / (math.log(2) * found[f"{name}_bytes"]) for name in ("supplied", "raw"))
        checks.equal(f"{run}: score", found, {**found, **{f"{name}_bytes": stream[f"{name}_bytes"] for name in (
            "supplied", "raw")}, "bits_per_byte": supplied, "raw_bits_per_byte": raw,
            "raw_minus_supplied": found["raw_bits_per_byte"] - found["bits_per_byte"]})
    if results.exists():
        frozen = {run: {key: result["score"][key] for key in score.get(run, {}) if key in result["score"]}
                  for run, result in read_json(results)["runs"].items()}
        ours = {run: {key: found[key] for key in found if key != "raw_minus_supplied"} for run, found in score.items()}
        checks.equal(f"{study}: scores in {results.name}", frozen, ours)
    else:
        print(f"left out the comparison with the frozen results: no {results}")


# --------------------------------------------------------------------------------------------- data


def check_data(checks, evidence, directory, protocol):
    """The prepared tables, the list of tokens and every count, derived anew from the prepared data."""
    import numpy as np

    from research.token_bytes.recount_tokens import read_ranks, recount

    tokens = read_ranks(directory / "tokenizer/ranks.txt")
    specials = [0] * (evidence["vocabulary"] - len(tokens))
    tables = {"supplied": [read_token(token)[0] for token in tokens] + specials, "raw": [*map(len, tokens), *specials]}
    for name, table in tables.items():
        checks.equal(f"bytes_{name}.npy", np.load(directory / f"tokenizer/bytes_{name}.npy").tolist(), table)
    counts, bos = recount(directory, protocol)
    types = [{"id": i, "bytes": token.hex(), "counts": {name: int(counts[name][i]) for name in STREAMS}}
             for i, token in enumerate(tokens) if tables["supplied"][i] != tables["raw"][i]]
    checks.equal("every differing token and its counts",
                 [{key: entry[key] for key in ("id", "bytes", "counts")} for entry in evidence["types"]], types)
    hidden = sum(read_token(token)[1] > 0 for token in tokens) - len(types)
    checks.equal("partial_types_of_equal_length", evidence["partial_types_of_equal_length"], hidden)
    checks.equal("ordinary_types", evidence["ordinary_types"], len(tokens))
    for name in STREAMS:
        found = {"tokens": int(counts[name].sum()), "bos": int(counts[name][bos]),
                 **{f"{kind_}_bytes": int(np.dot(counts[name], table)) for kind_, table in tables.items()}}
        checks.equal(f"{name}: totals", {key: evidence["streams"][name][key] for key in found}, found)
    texts = read_json(directory / "prepared.json")["splits"]["train"]["bytes"]
    checks.equal("corpus: raw bytes are those of its texts", evidence["streams"]["corpus"]["raw_bytes"], texts)


# --------------------------------------------------------------------------------------------- main


def check_inputs(checks, evidence, root, data):
    """Every input that is here has the SHA-256 that the evidence names; results are compared by their scores."""
    for entry in evidence["inputs"]:
        folder, _, rest = entry["path"].partition("/")
        path = {"data": data / rest, "protocols": root / entry["path"]}.get(folder)
        if path and path.exists():
            checks.equal(entry["path"], entry["sha256"], sha256_file(path))


def markdown(evidence):
    """The README's lines of a study."""
    lines = []
    for name in STREAMS:
        stream = evidence["streams"][name]
        excess = stream["supplied_bytes"] / stream["raw_bytes"] - 1
        lines.append(f"| `{evidence['study']}` | {name} | {stream['tokens']:,} | {stream['differing']:,} | "
                     f"{100 * stream['share']:.2f} % | {100 * excess:+.2f} % |")
    for run, score in (evidence["score"] or {}).items():
        lines.append(f"| `{evidence['study']}` | `{run}` | {score['bits_per_byte']:.4f} | "
                     f"{score['raw_bits_per_byte']:.4f} | {score['raw_minus_supplied']:+.4f} |")
    return lines


def check_study(checks, path, options):
    """All checks of one frozen audit, then its lines of the README."""
    evidence = read_json(path)
    require_keys(evidence, KEYS, path)
    study = evidence["study"]
    checks.expect(study == path.stem, f"{path.name}: study {study}")
    check_types(checks, evidence)
    check_sums(checks, evidence)
    protocol = read_json_if_there(options.root / f"protocols/{study}.json")
    histogram = read_json_if_there(options.root / f"research/source_exclusion/length_histogram_{study}.json")
    check_sizes(checks, evidence, protocol, histogram)
    check_score(checks, evidence, options.root / f"research/matched_training/{study}.json")
    data = options.data or options.root / "data"
    check_inputs(checks, evidence, options.root, data)
    directory = data / study
    if (directory / "prepared.json").exists() and protocol:
        check_data(checks, evidence, directory, protocol)
    else:
        print(f"left out the data: no {directory if protocol else 'protocol'}")
    print("", *markdown(evidence), "", sep="\n")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", nargs="+", metavar="NAME", help="default: all that are frozen")
    parser.add_argument("--data", type=Path, metavar="DIR", help="prepared data (default: data)")
    parser.add_argument("--folder", type=Path, default=HERE, metavar="DIR", help="of the evidence (default: this one)")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="of the repository (default: this one)")
    options = parser.parse_args(argv)
    frozen = sorted(options.folder.glob("*.json"))
    paths = [options.folder / f"{name}.json" for name in options.study] if options.study else frozen
    if not paths:
        raise InputError(f"{options.folder}: nothing is frozen; make it: audit_token_bytes.py --study NAME --freeze")
    checks = Checks()
    for path in paths:
        check_study(checks, path, options)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
