"""The token byte audit finds exactly the tokens whose lengths differ, counts them right, and no damage to it passes."""

import base64
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evidence
from research.token_bytes import audit_token_bytes as audit
from research.token_bytes import verify_token_bytes as verifier
from tiny import corpus as tiny_corpus

ROOT = Path(__file__).resolve().parents[1]

EURO, GRIN, SPACED = "€".encode(), "😀".encode(), " é".encode()
# Made by hand: token, class, length of its text when decoded alone.
MERGES = [
    (b"ab", None, 2), (EURO, None, 3), (SPACED, None, 3), ("\ufffd".encode(), None, 3),
    (EURO[:2], "partial_alone", 3), (GRIN[:2], "partial_alone", 3), (b"a" + EURO[:2], "partial_and_text", 4),
    (EURO[1:], "several_partials", 6), (SPACED[2:] + b"a" + EURO[:1], "several_partials", 7),
    (EURO[:2] + EURO[:2], "several_partials", 6), (b"\xed\xa0\x80", "several_partials", 9),
    (GRIN[:3], None, 3),  # partial, and by chance as long as U+FFFD
]
TOKENS = [bytes([byte]) for byte in range(256)] + [token for token, _, _ in MERGES]
BOS = len(TOKENS)


def slow_supplied(token):
    return len(token.decode("utf-8", errors="replace").encode())


def write_study(root):
    """A repository with the protocol `tiny`, and prepared data of the hand-made vocabulary, also longer than rows."""
    protocol = tiny_corpus.protocol()
    protocol["tokenizer"]["vocabulary"] = BOS + 4
    protocol["packing"]["buffer_size"] = 6
    evidence.write_json(root / "protocols/tiny.json", protocol)
    numbers, data = np.random.default_rng(5), root / "data/tiny"
    raw = [len(token) for token in TOKENS] + [0] * 4
    arrays = {"tokenizer/bytes_raw": np.array(raw, np.int32),
              "tokenizer/bytes_supplied": np.array([*map(slow_supplied, TOKENS), 0, 0, 0, 0], np.int32)}
    for split in ("train", "validation"):
        lengths = np.maximum(1, numbers.lognormal(2.6, 1.0, 80)).astype(np.int64)
        arrays |= {f"{split}/lengths": lengths, f"{split}/refill": np.full(10, 8),
                   f"{split}/tokens": numbers.integers(0, BOS, int(lengths.sum()) - 80).astype(np.uint16)}
    for name, array in arrays.items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(data / f"{name}.npy", array)
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(TOKENS)]
    (data / "tokenizer/ranks.txt").write_text("".join(lines))
    specials = {f"<|reserved_{i}|>": BOS + i for i in range(4)}
    evidence.write_json(data / "tokenizer/tokenizer.json", {
        "vocabulary": BOS + 4, "pattern": ".", "specials": specials, "bos": BOS})
    text = int(np.array(raw)[arrays["train/tokens"]].sum())
    tiny_corpus.list_prepared(data, splits={"train": {"bytes": text}})
    return root


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study without results, audited and frozen."""
    root = write_study(tmp_path_factory.mktemp("token_bytes"))
    assert audit.main([*arguments(root), "--freeze"]) == 0
    return root


def arguments(root):
    return ["--study", "tiny", "--root", str(root)]


def verify(root, capsys):
    """(exit code, lines that failed, everything printed)."""
    capsys.readouterr()
    code = verifier.main(["--root", str(root)])
    printed = capsys.readouterr().out
    return code, [line for line in printed.splitlines() if line.startswith("FAIL")], printed


def frozen(study):
    return evidence.read_json(study / "research/token_bytes/tiny.json")


def copy_of(study, place, value, data=True):
    """A repository with `value` frozen, the protocol and, where asked for, the prepared data of `study`."""
    evidence.write_json(place / "research/token_bytes/tiny.json", value)
    for name in ["protocols", *(["data"] if data else [])]:
        if not (place / name).exists():
            (place / name).symlink_to(study / name)
    return place


def test_the_hand_made_tokens_get_their_lengths_and_classes(study):
    found = {entry["id"]: (entry["class"], entry["supplied"], entry["raw"]) for entry in frozen(study)["types"]}
    expected = dict.fromkeys(range(128, 256), ("single_byte", 3, 1))
    expected |= {256 + i: (name, supplied, len(token)) for i, (token, name, supplied) in enumerate(MERGES) if name}
    assert found == expected
    assert frozen(study)["partial_types_of_equal_length"] == 1


def test_a_sound_audit_holds_with_data_and_without(study, tmp_path, capsys):
    assert verify(study, capsys)[:2] == (0, [])
    code, failures, printed = verify(copy_of(study, tmp_path, frozen(study), data=False), capsys)
    assert (code, failures) == (0, []) and "not checked: the counts" in printed


def test_occurrences_are_those_of_a_plain_count(study):
    tokens = np.load(study / "data/tiny/train/tokens.npy").tolist()
    for entry in frozen(study)["types"]:
        assert entry["counts"]["corpus"] == tokens.count(entry["id"])
    streams = frozen(study)["streams"]
    assert streams["corpus"]["tokens"] == len(tokens) + 80 and streams["corpus"]["bos"] == 80
    assert streams["inputs"]["tokens"] == 12 * 2 * 2 * 32 and streams["scored"]["tokens"] == 24 * 32


@settings(max_examples=300)
@given(token=st.one_of(st.binary(min_size=1, max_size=12), st.text(min_size=1).map(lambda text: text.encode()[1:-1]))
       .filter(len))
def test_audit_and_verifier_give_every_token_the_same_length_and_class(token):
    assert audit.supplied_length(token) == verifier.supplied_length(token) == slow_supplied(token)
    assert (verifier.partial_characters(token) == 0) == all(whole for _, whole in audit.pieces(token))
    assert verifier.partial_characters(token) == 0 or audit.class_of(token) == verifier.class_of(token)


def leaves(value, path=()):
    """Every path to a number or text in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path
    for key, item in items or ():
        yield from leaves(item, (*path, key))


def damaged(value, path):
    """`value` with the leaf at `path` changed by as little as its type allows."""
    copy = json.loads(json.dumps(value))
    at = copy
    for key in path[:-1]:
        at = at[key]
    old = at[path[-1]]
    at[path[-1]] = old + 1 if isinstance(old, int) else old * 1.0001 if isinstance(old, float) else "00" + old[2:]
    return copy


def test_a_change_of_any_number_is_found_from_the_data(study, tmp_path, capsys):
    """Of a seeded sample of the places, as one check of all takes minutes."""
    good, words = frozen(study), ("meaning", "path", "sha256", "score_left_out", "score")
    places = [path for path in leaves(good) if path[-1] not in words]
    chosen = random.Random(1).sample(places, 25)
    for path in [*chosen, ("streams", "inputs", "bos"), ("classes", "single_byte", "types"), ("ordinary_types",),
                 ("reported", "differing_types"), ("partial_types_of_equal_length",)]:
        code, failures, _ = verify(copy_of(study, tmp_path, damaged(good, path)), capsys)
        assert code == 1 and failures, path


def lie(change):
    """An edit of the frozen audit after which its own sums hold."""
    def edit(value):
        change(value)
        for stream in value["streams"].values():
            stream["share"] = stream["differing"] / stream["tokens"]
    return edit


@pytest.mark.parametrize("edit, named", [
    (lie(lambda v: v.update(vocabulary=9999)), "vocabulary and ordinary types of the protocol[0]"),
    (lie(lambda v: v.update(ordinary_types=v["ordinary_types"] + 1)), "ordinary types of the protocol[1]"),
    (lie(lambda v: v["streams"]["corpus"].update(bos=7)), "corpus: BOS and tokens of the length histogram[0]"),
    (lie(lambda v: v["streams"]["corpus"].update(tokens=v["streams"]["corpus"]["tokens"] + 9)), "histogram[1]"),
    (lie(lambda v: v["streams"]["inputs"].update(tokens=1535)), "tokens of inputs and scored of the protocol[0]"),
    (lie(lambda v: v["streams"]["scored"].update(tokens=769)), "tokens of inputs and scored of the protocol[1]"),
])
def test_a_lie_that_the_sums_allow_is_held_against_protocol_and_histogram(study, tmp_path, edit, named, capsys):
    corpus = frozen(study)["streams"]["corpus"]
    evidence.write_json(tmp_path / "research/source_exclusion/length_histogram_tiny.json",
                        {"documents": 80, "tokens": corpus["tokens"]})
    for change, expected in ((lambda v: None, []), (edit, [named])):
        value = frozen(study)
        change(value)
        code, failures, _ = verify(copy_of(study, tmp_path, value, data=False), capsys)
        assert code == len(expected) and [named in line for line in failures] == [True] * len(expected), failures


@pytest.mark.parametrize("text", ["0", "zz", "", "E2 82", "E282", 12, None])
def test_bytes_that_are_no_hex_are_a_failed_check(study, tmp_path, text, capsys):
    value = frozen(study)
    value["types"][3]["bytes"] = text
    code, failures, _ = verify(copy_of(study, tmp_path, value, data=False), capsys)
    assert code == 1 and len(failures) == 1 and "[131]" in failures[0]


@pytest.mark.parametrize("path", [("types", 0, "bytes"), ("types", 2, "raw"), ("types", 130, "supplied"),
                                  ("types", 5, "counts", "scored"), ("streams", "corpus", "share"),
                                  ("streams", "scored", "raw_bytes"), ("classes", "partial_alone", "counts", "inputs"),
                                  ("differing_types",)])
def test_without_data_what_follows_inside_the_file_is_found(study, tmp_path, path, capsys):
    code, failures, _ = verify(copy_of(study, tmp_path, damaged(frozen(study), path), data=False), capsys)
    assert code == 1 and failures


@pytest.mark.parametrize("name", ["tokenizer/bytes_raw.npy", "train/tokens.npy", "validation/tokens.npy"])
def test_one_changed_byte_of_the_data_is_found(study, tmp_path, name, capsys):
    copy_of(study, write_study(tmp_path), frozen(study))
    path = tmp_path / "data/tiny" / name
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    code, failures, _ = verify(tmp_path, capsys)
    assert code == 1 and failures


@pytest.mark.parametrize("table", ["supplied", "raw"])
def test_the_audit_names_a_table_that_is_not_what_the_bytes_give(study, tmp_path, table, capsys):
    write_study(tmp_path)
    path = tmp_path / f"data/tiny/tokenizer/bytes_{table}.npy"
    values = np.load(path)
    values[260] += 1
    np.save(path, values)
    with pytest.raises(evidence.InputError, match=f"bytes_{table}.npy: SHA-256 differs"):
        audit.main(arguments(tmp_path))
    tiny_corpus.list_prepared(path.parents[1])
    assert audit.main(arguments(tmp_path)) == 1
    assert f"bytes_{table}.npy: token 260: expected" in capsys.readouterr().out


def with_results(root):
    """Frozen results of two runs whose bytes are those of the audit's own scored stream."""
    scored = frozen(root)["streams"]["scored"]
    runs = {}
    for run, nats in {"baseline_s43": 900.0, "segmented_s43": 950.0}.items():
        bits = {name: nats / (np.log(2) * scored[f"{name}_bytes"]) for name in ("supplied", "raw")}
        counted = {key: scored[key] for key in ("supplied_bytes", "raw_bytes")}
        runs[run] = {"score": {"nats": nats, **counted,
                               "bits_per_byte": float(bits["supplied"]), "raw_bits_per_byte": float(bits["raw"])}}
    path = root / "research/matched_training/tiny.json"
    evidence.write_json(path, {"runs": runs})
    return path


def test_scores_are_carried_once_the_results_are_frozen(tmp_path, capsys):
    root = write_study(tmp_path)
    assert audit.main([*arguments(root), "--freeze"]) == 0
    assert frozen(root)["score"] is None and "no research/matched_training/tiny.json" in frozen(root)["score_left_out"]
    results = with_results(root)
    code, failures, _ = verify(root, capsys)
    assert code == 1 and len(failures) == 1 and results.name in failures[0]
    with pytest.raises(evidence.InputError, match="the new content differs"):
        audit.main([*arguments(root), "--freeze"])
    (root / "research/token_bytes/tiny.json").unlink()
    assert audit.main([*arguments(root), "--freeze"]) == 0
    assert verify(root, capsys)[:2] == (0, [])
    for edit in (lambda score: score.update(nats=901.0), lambda score: score.update(raw_bytes=score["raw_bytes"] - 1)):
        changed = evidence.read_json(results)
        edit(changed["runs"]["baseline_s43"]["score"])
        evidence.write_json(results, changed)
        code, failures, _ = verify(root, capsys)
        assert code == 1 and any("scores in tiny.json.baseline_s43" in line for line in failures)
        with_results(root)


def test_nothing_frozen_and_nothing_prepared_are_named(tmp_path):
    shutil.copytree(ROOT / "protocols", tmp_path / "protocols")
    with pytest.raises(evidence.InputError, match="audit_token_bytes.py --study NAME --freeze"):
        verifier.main(["--root", str(tmp_path)])
    with pytest.raises(evidence.InputError, match="prepared.json: missing; .*prepare.py --study demo"):
        audit.main(["--study", "demo", "--root", str(tmp_path)])


def test_the_frozen_audits_hold(capsys):
    assert verifier.main([]) == 0
