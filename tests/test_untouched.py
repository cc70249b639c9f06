"""What a sweep had scored of the reserved documents is found, by hand-made numbers, and no other list passes for it."""

import shutil

import numpy as np
import pytest

from evidence import InputError, read_json, sha256_file, write_json
from research.confirmation import check_untouched, freeze_protocol, reserved, seen, verify_seen
from tiny import swept as swept_study
from tiny.runs import ROOT, list_prepared

SEEN, FOLDER = "research/confirmation/seen_tiny.json", ROOT / "research/confirmation"


@pytest.fixture
def study(tmp_path):
    return swept_study.build(tmp_path / "study")


@pytest.fixture
def frozen(study):
    """The study with its evidence of what was seen."""
    assert run(check_untouched, study, "--freeze") == 0
    return study


def run(module, root, *options):
    return module.main(["--study", "tiny", "--root", str(root), *options])


def change(path, edit):
    value = read_json(path)
    edit(value)
    write_json(path, value)


def test_the_one_reserved_document_that_was_scored_is_named_with_its_rows_and_tokens(frozen):
    found = read_json(frozen / SEEN)
    assert [{key: value for key, value in record.items() if key != "plan_sha256"} for record in found["contexts"]] == [
        swept_study.CONTEXT_2, swept_study.CONTEXT_8]
    assert found["seen"] == {"reserved": [3], "in_confirmation": swept_study.SEEN}
    whole = found["confirmation"]
    assert (found["reserved"], whole["begun"], whole["rows"], whole["tokens"]) == ([3, 12], 6, 3, 15)
    assert "had scored 1 of the 6 documents that this stream begins; without the 1 of 3 rows" in (
        check_untouched.seen_finding(found))


@pytest.mark.parametrize("name, folder", [("tiny", None), ("wheels", FOLDER)])
def test_differences_are_those_of_the_rows_that_hold_nothing_seen(frozen, name, folder):
    folder = folder or (frozen / SEEN).parent
    found, order = read_json(folder / f"seen_{name}.json"), read_json(folder / f"{name}.json")["rows"]["order"]
    statistics = np.load(folder / f"rows_{name}.npy")
    rows = [row for row in range(statistics.shape[1]) if row not in found["seen"]["in_confirmation"]["rows"]]
    assert 0 < len(rows) < statistics.shape[1]
    assert found["bits_per_byte_minus_baseline"] == {
        "all_rows": swept_study.differences(statistics, order, range(statistics.shape[1])),
        "without_rows_seen": swept_study.differences(statistics, order, rows)}


def test_no_protocol_is_frozen_over_documents_that_a_candidate_begins(study):
    (study / "research/confirmation/protocol_tiny.json").unlink()
    (study / "research/confirmation/tiny.json").unlink()
    with pytest.raises(InputError, match="3 on are reserved, but the sweep scored document 3 at context 2; reserve"):
        run(freeze_protocol, study)
    change(study / "protocols/evaluation_tiny.json", lambda value: value["confirmation"].update(documents=[6, 12]))
    assert seen.require_unseen(reserved.Study("tiny", study)) is None
    (study / "protocols/candidates_tiny.json").unlink()
    change(study / "protocols/evaluation_tiny.json", lambda value: value["confirmation"].update(documents=[3, 12]))
    assert seen.require_unseen(reserved.Study("tiny", study)) is None


def test_a_document_behind_the_reserved_ones_may_have_been_scored(study):
    """A candidate of context 2 begins documents of three tokens alone: 0 and 2 to 4, for 1 is longer now."""
    np.save(study / "data/tiny/validation/lengths.npy", [3, 9, *[3] * 10])
    list_prepared(study / "data/tiny")
    change(study / "protocols/candidates_tiny.json", lambda value: value["candidates"].pop(1))
    change(study / "protocols/evaluation_tiny.json", lambda value: value["confirmation"].update(documents=[1, 2]))
    assert seen.require_unseen(reserved.Study("tiny", study)) is None
    change(study / "protocols/evaluation_tiny.json", lambda value: value["confirmation"].update(documents=[1, 3]))
    with pytest.raises(InputError, match="1 on are reserved, but the sweep scored document 2 at context 2"):
        seen.require_unseen(reserved.Study("tiny", study))


def test_nothing_is_written_unless_asked_and_never_another_answer(study):
    assert run(check_untouched, study) == 0 and not (study / SEEN).exists()
    assert run(check_untouched, study, "--freeze") == 0 == run(check_untouched, study, "--freeze")
    change(study / SEEN, lambda value: value["seen"]["reserved"].append(4))
    with pytest.raises(InputError, match="seen_tiny.json: frozen, and the new content differs at .*reserved"):
        run(check_untouched, study, "--freeze")


@pytest.mark.parametrize("name, edit, told", [
    ("protocol_tiny.json", lambda v: v["content"]["stream"].update(plan_sha256="0" * 64), "FALSE stream: frozen '000"),
    ("tiny.json", lambda v: v["bits_per_byte_minus_baseline"].update(segmented_s44=0.5), "segmented_s44: frozen 0.5"),
])
def test_what_is_not_the_frozen_confirmation_is_false_and_not_frozen(study, capsys, name, edit, told):
    change(study / "research/confirmation" / name, edit)
    assert run(check_untouched, study, "--freeze") == 1
    assert told in capsys.readouterr().out and not (study / SEEN).exists()


def test_candidates_of_another_study_are_refused(study):
    change(study / "protocols/candidates_tiny.json", lambda value: value.update(base="wheels"))
    with pytest.raises(InputError, match="candidates_tiny.json: base: expected 'tiny', found 'wheels'"):
        run(check_untouched, study)


def test_a_stream_that_reads_the_split_again_has_seen_every_reserved_document(study, capsys):
    change(study / "protocols/candidates_tiny.json", lambda value: value.update(evaluation_targets=64))
    assert run(check_untouched, study, "--freeze") == 0
    record, told = read_json(study / SEEN)["contexts"][0], capsys.readouterr().out
    assert record["arrived"] > 24 and record["reserved_arrived"] == 9
    assert record["reserved_begun"] == list(range(3, 12)) and record["in_confirmation"]["rows"] == [0, 1, 2]
    assert "each of its 3 rows holds one of them" in told and "no row left" in told
    assert read_json(study / SEEN)["bits_per_byte_minus_baseline"]["without_rows_seen"] is None
    assert run(verify_seen, study) == 0 and "without_rows_seen: 0 rows" in capsys.readouterr().out


# ------------------------------------------------------------------------------------- the verifier


def test_the_verifier_derives_all_of_it_again_with_the_data_and_less_without(frozen, capsys):
    assert run(verify_seen, frozen) == 0
    told = capsys.readouterr().out
    assert "context 2 packed again: 6 arrive, 1 reserved begun" in told and "left out" not in told
    shutil.rmtree(frozen / "data")
    assert run(verify_seen, frozen) == 0
    told = capsys.readouterr().out
    assert "without_rows_seen: 2 rows" in told and "left out the packing of the streams: no data/tiny" in told


def test_the_frozen_evidence_of_the_repository_passes():
    assert verify_seen.main(["--study", "wheels"]) == 0


WITHOUT_DATA = {
    "a row less": lambda v: v["seen"]["in_confirmation"].update(rows=[]),
    "another row in both lists": lambda v: [part["in_confirmation"].update(rows=[1]) for part in (
        v["seen"], v["contexts"][0])],
    "a row that is none": lambda v: [part["in_confirmation"].update(rows=[0, 3]) for part in (
        v["seen"], v["contexts"][0])],
    "a difference": lambda v: v["bits_per_byte_minus_baseline"]["without_rows_seen"].update(segmented_s43=0.5),
    "a difference over all rows": lambda v: v["bits_per_byte_minus_baseline"]["all_rows"].update(segmented_s43=0.5),
    "a confirmed document that was not begun": lambda v: v["contexts"][0].update(reserved_begun=[4]),
    "a document less": lambda v: v["seen"].update(reserved=[]),
    "a context less": lambda v: v["contexts"].pop(1),
    "another number of candidates": lambda v: v["contexts"][0].update(candidates=1),
    "fewer targets": lambda v: v["contexts"][0].update(targets=4),
    "another range": lambda v: v.update(reserved=[4, 12]),
    "fewer arrivals": lambda v: v["contexts"][0].update(arrived=5),
    "more begun": lambda v: v["confirmation"].update(begun=7),
    "another input": lambda v: v["inputs"][0].update(sha256="0" * 64),
    "no lists": lambda v: v.update(contexts=None),
}
WITH_DATA = {
    "another count of documents": lambda v: v["contexts"][0].update(begun=5),
    "another count of tokens": lambda v: [part["in_confirmation"].update(tokens=4) for part in (
        v["seen"], v["contexts"][0])],
    "nothing seen": lambda v: [part.update(in_confirmation=v["contexts"][1]["in_confirmation"]) for part in (
        v["seen"], v["contexts"][0])],
    "another longest": lambda v: v["contexts"][0].update(longest_begun=2),
    "another plan": lambda v: v["contexts"][1].update(plan_sha256="0" * 64),
}


@pytest.mark.parametrize("edit", WITHOUT_DATA.values(), ids=WITHOUT_DATA)
def test_a_false_statement_fails_without_the_data(frozen, capsys, edit):
    shutil.rmtree(frozen / "data")
    change(frozen / SEEN, edit)
    assert run(verify_seen, frozen) == 1 and "FAIL" in capsys.readouterr().out


@pytest.mark.parametrize("edit", WITH_DATA.values(), ids=WITH_DATA)
def test_a_false_statement_about_a_stream_fails_with_the_data(frozen, capsys, edit):
    change(frozen / SEEN, edit)
    assert run(verify_seen, frozen) == 1 and "FAIL" in capsys.readouterr().out


def test_changed_rows_are_found(frozen, capsys):
    path = frozen / "research/confirmation/rows_tiny.npy"
    statistics = np.load(path)
    statistics[1, 2, 0] += 1e-9
    np.save(path, statistics)
    assert run(verify_seen, frozen) == 1 and "FAIL rows file" in capsys.readouterr().out
    path.unlink()
    with pytest.raises(InputError, match="rows_tiny.npy: missing; it comes with tiny.json"):
        run(verify_seen, frozen)


def test_the_frozen_evidence_names_every_file_it_was_made_from_as_it_is():
    inputs = {entry["path"]: entry["sha256"] for entry in read_json(FOLDER / "seen_wheels.json")["inputs"]}
    here = {name: digest for name, digest in inputs.items() if not name.startswith("data/")}
    assert len(here) == 7 and here == {name: sha256_file(ROOT / name) for name in here}
