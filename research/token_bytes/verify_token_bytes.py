"""Do the frozen token byte audits follow from their own bytes and counts and, where data is prepared, from the data?

    python research/token_bytes/verify_token_bytes.py [--study NAME ...] [--root DIR]

Reads   NAME.json beside this script, as audit_token_bytes.py froze it. Where they exist it also reads
        research/matched_training/NAME.json, the protocol, research/source_exclusion/length_histogram_NAME.json and
        data/NAME/.
Writes  nothing
Needs   Python's standard library; NumPy where the study is prepared
About   one second; half a minute where both studies are prepared

The verifier always derives both lengths and the class of every listed token from its bytes, every sum, every share and
every score, and the sizes of the streams from the protocol and the length histogram. With prepared data it also derives
the byte tables from ranks.txt, the complete list of differing tokens, and every count; it packs the rows with the
reference packer. Without data, only their sums bind the counts of tokens. Exit 1 names what is false.
"""

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import Checks, InputError, parser, read_json, read_json_if_there, require_keys, run_script

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "research/token_bytes"

KEYS = ("classes", "differing_types", "inputs", "ordinary_types", "partial_types_of_equal_length", "reported", "score",
        "score_left_out", "streams", "study", "types", "vocabulary")
REPORTED = {"source": "paper, section 8", "differing_types": 138, "share_of_training_input_tokens": "about 0.24%"}
STREAMS = ("corpus", "inputs", "scored")
CLASSES = ("single_byte", "partial_alone", "partial_and_text", "several_partials")

# ------------------------------------------------------------------------------------------- tokens


def partial_characters(token):
    """How many partial characters Python's decoder replaces by U+FFFD when it decodes the token alone."""
    return token.decode(errors="replace").count("\ufffd") - token.count("\ufffd".encode())


def supplied_length(token):
    """UTF-8 bytes of the token decoded alone, each partial character replaced by U+FFFD."""
    return len(token.decode(errors="replace").encode())


def class_of(token):
    """The class of a token that holds a partial character."""
    if len(token) == 1:
        return "single_byte"
    partial = partial_characters(token)
    if partial > 1:
        return "several_partials"
    return "partial_and_text" if len(token.decode(errors="replace")) > partial else "partial_alone"


def spelled(entry):
    """The bytes of a listed token, or no bytes where its hex digits are not the canonical spelling."""
    try:
        data = bytes.fromhex(entry["bytes"])
    except (TypeError, ValueError):
        return b""
    return data if data.hex() == entry["bytes"] else b""


def check_types(checks, evidence):
    """Check the lengths and the class of every listed token, and that each token belongs in the list."""
    types = evidence["types"]
    broken = [entry["id"] for entry in types if not spelled(entry)]
    checks.expect(not broken, f"tokens whose bytes are not pairs of hex digits: {broken or 'none'}")
    if broken:
        return
    derived = []
    for entry in types:
        data = spelled(entry)
        derived.append({**entry, "supplied": supplied_length(data), "raw": len(data),
                        "class": class_of(data)})
    checks.equal(f"lengths and classes of {len(types)} tokens", types, derived)
    ids = [entry["id"] for entry in types]
    checks.expect(ids == sorted(set(ids)) and set(ids) <= set(range(evidence["ordinary_types"])),
                  f"the ids ascend and are below {evidence['ordinary_types']}")
    same = [entry["id"] for entry in types if entry["supplied"] == entry["raw"]]
    checks.expect(not same, f"listed tokens whose two lengths are equal: {same or 'none'}")
    single = sorted(entry["bytes"] for entry in types if entry["class"] == "single_byte")
    checks.expect(single == [f"{byte:02x}" for byte in range(128, 256)], f"single bytes above 7f: {len(single)} of 128")
    checks.equal("differing_types", evidence["differing_types"], len(types))
    checks.equal("the paper's numbers, as reported", evidence["reported"], REPORTED)


def check_sums(checks, evidence):
    """Check the totals of every stream and class against the listed tokens."""
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
    """Check the vocabulary and the sizes of the streams against the protocol and the frozen length histogram.

    Either may be None, where the file does not exist. All ids but the specials are ordinary; the corpus has one BOS
    for each document.
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
    """Check every run's two scores, against the frozen results where those exist."""
    study, score = evidence["study"], evidence["score"]
    if score is None:
        text = "it exists now: freeze the audit again" if results.exists() else "it does not exist"
        checks.expect(not results.exists(), f"the score was left out because {results} did not exist; {text}")
        return
    stream = evidence["streams"]["scored"]
    for run, found in score.items():
        supplied, raw = (found["nats"] / (math.log(2) * found[f"{name}_bytes"]) for name in ("supplied", "raw"))
        checks.equal(f"{run}: score", found, {
            "nats": found["nats"], "supplied_bytes": stream["supplied_bytes"], "raw_bytes": stream["raw_bytes"],
            "bits_per_byte": supplied, "raw_bits_per_byte": raw, "raw_minus_supplied": raw - supplied})
    if results.exists():
        frozen = {run: {key: result["score"][key] for key in score.get(run, {}) if key in result["score"]}
                  for run, result in read_json(results)["runs"].items()}
        ours = {run: {key: found[key] for key in found if key != "raw_minus_supplied"} for run, found in score.items()}
        checks.equal(f"{study}: scores in {results.name}", frozen, ours)
    else:
        print(f"not checked: the frozen results, because {results} does not exist")


# --------------------------------------------------------------------------------------------- data


def check_data(checks, evidence, directory, protocol):
    """Derive the byte tables, the list of tokens and every count from the prepared data, and compare them."""
    import numpy as np

    from research.token_bytes.recount_tokens import read_ranks, recount

    tokens = read_ranks(directory / "tokenizer/ranks.txt")
    specials = [0] * (evidence["vocabulary"] - len(tokens))
    tables = {"supplied": [*map(supplied_length, tokens), *specials], "raw": [*map(len, tokens), *specials]}
    for name, table in tables.items():
        checks.equal(f"bytes_{name}.npy", np.load(directory / f"tokenizer/bytes_{name}.npy").tolist(), table)
    counts, bos = recount(directory, protocol)
    types = [{"id": i, "bytes": token.hex(), "counts": {name: int(counts[name][i]) for name in STREAMS}}
             for i, token in enumerate(tokens) if tables["supplied"][i] != tables["raw"][i]]
    checks.equal("every differing token and its counts",
                 [{key: entry[key] for key in ("id", "bytes", "counts")} for entry in evidence["types"]], types)
    hidden = sum(partial_characters(token) > 0 for token in tokens) - len(types)
    checks.equal("partial_types_of_equal_length", evidence["partial_types_of_equal_length"], hidden)
    checks.equal("ordinary_types", evidence["ordinary_types"], len(tokens))
    for name in STREAMS:
        found = {"tokens": int(counts[name].sum()), "bos": int(counts[name][bos]),
                 **{f"{kind}_bytes": int(np.dot(counts[name], table)) for kind, table in tables.items()}}
        checks.equal(f"{name}: totals", {key: evidence["streams"][name][key] for key in found}, found)
    texts = read_json(directory / "prepared.json")["splits"]["train"]["bytes"]
    checks.equal("corpus: raw bytes of its texts", evidence["streams"]["corpus"]["raw_bytes"], texts)


# --------------------------------------------------------------------------------------------- main


def check_study(checks, path, root):
    """Run all checks of one frozen audit."""
    evidence = read_json(path)
    require_keys(evidence, KEYS, path)
    study = evidence["study"]
    checks.expect(study == path.stem, f"{path.name}: study {study}")
    check_types(checks, evidence)
    check_sums(checks, evidence)
    protocol = read_json_if_there(root / f"protocols/{study}.json")
    histogram = read_json_if_there(root / f"research/source_exclusion/length_histogram_{study}.json")
    check_sizes(checks, evidence, protocol, histogram)
    check_score(checks, evidence, root / f"research/matched_training/{study}.json")
    directory = root / "data" / study
    if (directory / "prepared.json").exists() and protocol:
        check_data(checks, evidence, directory, protocol)
    else:
        print(f"not checked: the counts of each token, because {directory} is not prepared")


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", nargs="+", metavar="NAME", help="studies to check (default: all that are frozen)")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    options = arguments.parse_args(argv)
    folder = options.root / QUESTION
    frozen = sorted(folder.glob("*.json"))
    paths = [folder / f"{name}.json" for name in options.study] if options.study else frozen
    if not paths:
        raise InputError(f"{folder}: no audit is frozen; run audit_token_bytes.py --study NAME --freeze")
    checks = Checks()
    for path in paths:
        check_study(checks, path, options.root)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
