"""A right batch passes the checklist in every form in use, and each planted fault fails the items that name it.

Cases 13, 14, 16 and 27 of tools of this kind, and the worked example of the note on batches.
"""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence import InputError, read_json, run_script
from research.batch_boundaries import diagnose as script
from research.batch_boundaries import diagnosis
from research.batch_boundaries.verdicts import Declared

HERE = Path(diagnosis.__file__).parent
FROZEN = read_json(HERE / "collators.json")
BOS, EOS, PAD = 1, 2, 0

IDS, READ, SCORED, END, PADDING, PAD_LABELS, SHIFT, BOUNDARY, POSITIONS, ISOLATED, IDLE, EFFECTIVE = (
    "token ids are preserved", "every token is read once", "every target is scored once", "the real end stays a target",
    "padding is found by length", "padding labels are ignored", "labels are shifted once",
    "boundary labels are ignored", "positions restart", "attention isolates documents", "no row is idle",
    "effective targets")


def padded(documents, pad=PAD):
    """One document a row, built by hand: nothing is shared with loaders/."""
    width = max(map(len, documents))
    rows = {"input_ids": [], "labels": [], "attention_mask": [], "position_ids": []}
    for ids in documents:
        free = width - len(ids)
        rows["input_ids"].append(ids + [pad] * free)
        rows["labels"].append([-100] + ids[1:] + [-100] * free)
        rows["attention_mask"].append([1] * len(ids) + [0] * free)
        rows["position_ids"].append(list(range(len(ids))) + [0] * free)
    return {key: np.array(value) for key, value in rows.items()}


def packed(documents):
    """All documents in one row, independent."""
    numbers = [[n] * len(ids) for n, ids in enumerate(documents)]
    rows = {"input_ids": documents, "labels": [[-100] + ids[1:] for ids in documents],
            "position_ids": [list(range(len(ids))) for ids in documents], "segment_ids": numbers}
    return {key: np.concatenate(value)[None] for key, value in rows.items()}


def blocks(batch):
    """bool (rows, 1, width, width): the lower triangle of each document."""
    ids = batch["segment_ids"]
    return (np.tri(ids.shape[1], dtype=bool) & (ids[:, :, None] == ids[:, None, :]))[:, None]


def external(batch):
    """Labels shifted outside: each input's label is the next token."""
    return batch | {"labels": np.roll(batch["labels"], -1, axis=1)}


def without(batch, *keys):
    return {key: value for key, value in batch.items() if key not in keys}


def diagnosed(function, lengths=(4, 3, 7), pad=PAD, bos=BOS, pad_in_text=False, first_id=10, prompts=None, **stated):
    """{item: result} of a function under stated options."""
    documents = diagnosis.make_documents(list(lengths), bos=bos, eos=EOS, pad=pad, pad_in_text=pad_in_text,
                                         first_id=first_id)
    targets = diagnosis.targets_after(prompts, documents) if prompts else None
    declared = Declared(bos=bos, eos=EOS, pad=pad, **stated)
    return {item["item"]: item for item in diagnosis.diagnose(function, documents, declared, targets)["items"]}


def statuses(items, status):
    return {name for name, item in items.items() if item["status"] == status}


# ------------------------------------------------------------------------------------- right batches


def test_the_worked_example_has_seven_eighths_and_five_targets_padded_and_packed():
    """A = BOS x y EOS, B = BOS z EOS: 87.5 %, five targets; packed 7 of 7 and 10 + 6 allowed pairs."""
    for function, positions in ((padded, 8), (packed, 7)):
        items = diagnosed(function, lengths=(4, 3), convention="internal")
        counts = items[EFFECTIVE]["counts"]
        assert not statuses(items, "FAIL") and counts["positions"] == positions
        assert counts["non_padding"] == 7 and counts["effective_targets"] == counts["inside"] == 5
        assert items[ISOLATED]["counts"]["pairs_inside_documents"] == 16
    assert "87.5%" in diagnosed(padded, lengths=(4, 3))[EFFECTIVE]["reason"]


FORMS = {
    "torch tensors": lambda batch: {key: torch.from_numpy(value) for key, value in batch.items()},
    "lists": lambda batch: {key: value.tolist() for key, value in batch.items()},
    "no batch dimension": lambda batch: {key: value[0] for key, value in batch.items()},
    "two batches": lambda batch: iter([batch | {"extra": "unread"}]),
    "a 4-D boolean mask": lambda batch: without(batch, "segment_ids") | {"attention_mask": blocks(batch)},
    "a 4-D additive mask": lambda batch: without(batch, "segment_ids") | {
        "attention_mask": torch.from_numpy(np.where(blocks(batch), 0.0, -np.inf)).bfloat16()},
    "a 2-D mask of document numbers": lambda batch: without(batch, "segment_ids") | {
        "attention_mask": batch["segment_ids"] + 1},
    "where sequences end": lambda batch: without(batch, "segment_ids") | {
        "cu_seq_lens_q": [0, 4, 7, 14], "max_length_q": 7},
    "sequence lengths": lambda batch: without(batch, "segment_ids") | {"seq_lens": [[4, 3, 7]]},
    "seq_idx": lambda batch: without(batch, "segment_ids") | {"seq_idx": batch["segment_ids"]},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_right_packed_batch_passes_in_every_form(form):
    items = diagnosed(lambda documents: FORMS[form](packed(documents)), convention="internal")
    assert statuses(items, "ok") == {IDS, READ, SCORED, END, SHIFT, BOUNDARY, POSITIONS, ISOLATED, IDLE, EFFECTIVE}
    assert statuses(items, "not applied") == {PADDING, PAD_LABELS}


@pytest.mark.parametrize("pad, bos", [(EOS, BOS), (EOS, EOS), (PAD, BOS)])
def test_a_right_padded_batch_passes_also_where_padding_is_the_end_and_the_start(pad, bos):
    """Case 13; and bos = eos = pad, as in GPT-2."""
    items = diagnosed(lambda documents: padded(documents, pad), pad=pad, bos=bos, convention="internal")
    assert not statuses(items, "FAIL")
    assert items[PADDING]["status"] == ("ok" if pad == EOS else "cannot tell")
    assert items[PAD_LABELS]["counts"]["padding"] == 7


def test_a_real_token_of_the_paddings_id_is_kept_and_looked_for():
    """Case 27: the real 0 stays."""
    items = diagnosed(padded, pad_in_text=True, convention="internal")
    assert not statuses(items, "FAIL") and items[PADDING]["counts"]["real_tokens_of_padding_id"] == 1


def test_the_projects_own_batches_pass():
    from research.batch_boundaries.layouts import pack_documents, pad_documents

    for function in (lambda d: pack_documents(d, 8, pad=EOS), lambda d: pad_documents(d, pad=EOS)):
        items = diagnosed(function, pad=EOS, convention="internal")
        assert not statuses(items, "FAIL") and items[PADDING]["status"] == "ok"


def left_padded(documents, pad):
    batch = padded(documents, pad)
    free = (batch["attention_mask"] == 0).sum(axis=1)
    return {key: np.stack([np.roll(row, k) for row, k in zip(value, free)]) for key, value in batch.items()}


@settings(max_examples=60)
@given(lengths=st.lists(st.integers(3, 9), min_size=2, max_size=6), pad=st.sampled_from([PAD, BOS, EOS]),
       bos=st.sampled_from([None, BOS, EOS]), spare=st.integers(0, 9))
def test_no_right_batch_is_blamed_whatever_the_lengths_and_shared_ids(lengths, pad, bos, spare):
    """Padded at either side, packed in full or in part, labels inside or outside; padding, start and end may be one."""
    from research.batch_boundaries.layouts import pack_documents

    def in_rows(documents):
        return pack_documents(documents, max(lengths) + spare, pad=pad)._asdict()

    for function, convention in ((lambda d: padded(d, pad), "internal"), (lambda d: left_padded(d, pad), "internal"),
                                 (in_rows, "internal"), (lambda d: external(in_rows(d)), "external")):
        assert not statuses(diagnosed(function, lengths, pad, bos, convention=convention), "FAIL")


def test_labels_shifted_outside_are_recognised_and_held_against_what_is_declared():
    for convention, status in (("external", "ok"), ("internal", "FAIL"), ("auto", "cannot tell")):
        items = diagnosed(lambda documents: external(packed(documents)), convention=convention)
        assert items[SHIFT]["status"] == status and items[SHIFT]["counts"]["found"] == "external"
        assert statuses(items, "FAIL") == ({SHIFT} if status == "FAIL" else set())
    assert diagnosed(packed, convention="external")[SHIFT]["reason"].endswith("not shifted at all")


def windows(documents, width=4, stride=4):
    """Pairs (inputs, targets) of T + 1 tokens of one stream."""
    stream = np.concatenate(documents)
    starts = range(0, len(stream) - 1, stride)
    return [(stream[None, s:s + width][:, :len(stream) - 1 - s], stream[None, s + 1:s + width + 1]) for s in starts]


def test_a_continuous_stream_is_not_held_to_independence():
    items = diagnosed(windows, semantics="continuous", convention="external")
    assert not statuses(items, "FAIL") and statuses(items, "not applied") == {
        PADDING, PAD_LABELS, BOUNDARY, POSITIONS, ISOLATED}
    assert items[EFFECTIVE]["counts"]["effective_targets"] == 13 and items[EFFECTIVE]["counts"]["across"] == 2
    assert {BOUNDARY, EFFECTIVE} <= statuses(diagnosed(windows), "FAIL")
    assert statuses(diagnosed(windows), "cannot tell") >= {POSITIONS, ISOLATED}
    assert ISOLATED in statuses(diagnosed(windows, isolation="batch"), "FAIL")


def test_windows_that_overlap_read_and_score_twice():
    items = diagnosed(lambda documents: windows(documents, stride=2), semantics="continuous", convention="external")
    assert {READ, SCORED} <= statuses(items, "FAIL")


def test_rows_of_internal_labels_that_share_a_token_score_every_target_once():
    """Case 9C: rows 0-4, 4-8, 8-12; the shared token is once an input that predicts."""
    def shared(documents):
        stream = np.concatenate(documents)
        rows = [stream[s:s + 5] for s in range(0, len(stream) - 1, 4)]
        return [{"input_ids": row, "labels": np.append(-100, row[1:])} for row in rows]

    for lengths in ((4, 3, 6), (5, 4, 4), (3, 6, 4)):
        items = diagnosed(shared, lengths=lengths, semantics="continuous", convention="internal")
        assert not statuses(items, "FAIL") and items[EFFECTIVE]["counts"]["effective_targets"] == 12


def test_specials_that_the_function_adds_itself_are_expected_in_the_batch():
    def adds_both(documents):
        return packed([[BOS, *ids, EOS] for ids in documents])

    assert not statuses(diagnosed(adds_both, (4, 3), added=("bos", "eos"), convention="internal"), "FAIL")
    assert statuses(diagnosed(packed, (4, 3), added=("bos", "eos"), convention="internal"), "FAIL")


# -------------------------------------------------------------------------------------------- faults


def boundary_kept(documents):
    batch = packed(documents)
    return batch | {"labels": batch["input_ids"]}


def masked_by_id(documents):
    batch = padded(documents, EOS)
    return batch | {"labels": np.where(batch["input_ids"] == EOS, -100, batch["labels"])}


def ahead_by_two(documents):
    batch = packed(documents)
    return batch | {"labels": np.roll(batch["input_ids"], -2, axis=1)}


def idle_row(documents):
    batch = padded(documents)
    rest = {key: np.full_like(value[:1], -100 if key == "labels" else 0) for key, value in batch.items()}
    return {key: np.concatenate([value, rest[key]]) for key, value in batch.items()}


def changed(build, key, value):
    """`build` with one key set by value(batch)."""
    return lambda documents: (batch := build(documents)) | {key: value(batch)}


def ends_moved(moved):
    return lambda documents: without(packed(documents), "segment_ids") | {"cu_seq_lens_q": moved}


def full_rows(batch):
    return np.ones_like(batch["input_ids"])


LOST = {READ, SCORED, EFFECTIVE}
FAULTS = {
    "no document mask": (changed(lambda d: without(packed(d), "segment_ids"), "attention_mask", full_rows), {ISOLATED}),
    "no mask and no positions": (lambda d: without(packed(d), "segment_ids", "position_ids"), {ISOLATED}),
    "a mask without the causal rule": (changed(packed, "attention_mask", lambda b: blocks(b) | True), {ISOLATED}),
    "a mask without the diagonal": (changed(packed, "attention_mask", lambda b: blocks(b) & ~np.eye(14, dtype=bool)),
                                    {ISOLATED}),
    "sequence ends off by one": (ends_moved([0, 5, 7, 14]), {ISOLATED}),
    "a sequence end missing": (ends_moved([0, 7, 14]), {ISOLATED}),
    "the last sequence left out": (ends_moved([0, 4, 7]), {ISOLATED}),
    "the longest length too short": (changed(packed, "max_length_q", lambda b: 6), {ISOLATED}),
    "positions run on": (changed(packed, "position_ids", lambda b: np.arange(14)[None]), {POSITIONS}),
    "boundary targets kept": (boundary_kept, {BOUNDARY, EFFECTIVE}),
    "labels two ahead": (ahead_by_two, {SHIFT}),
    "a second shift": (lambda d: external(packed(d)), {SHIFT}),
    "padding labels kept": (changed(padded, "labels", lambda b: b["input_ids"]), {PAD_LABELS, EFFECTIVE}),
    "padding not masked": (changed(padded, "attention_mask", full_rows), {PADDING}),
    "a real token masked": (changed(padded, "attention_mask", lambda b: b["attention_mask"] * (b["input_ids"] != EOS)),
                            {PADDING, ISOLATED}),
    "the last document lost": (lambda d: packed(d[:-1]), LOST | {END}),
    "documents cut at six tokens": (lambda d: packed([ids[:6] for ids in d]), LOST | {END}),
    "a document read twice": (lambda d: packed(d + d[:1]), LOST),
    "an id changed": (lambda d: packed([[80 if id == 16 else id for id in ids] for ids in d]), LOST | {IDS}),
    "ids as floats": (changed(packed, "input_ids", lambda b: b["input_ids"].astype(float)), {IDS}),
    "a row of padding only": (idle_row, {IDLE}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_planted_fault_fails_the_items_that_name_it_and_no_others(fault):
    function, expected = FAULTS[fault]
    assert statuses(diagnosed(function, convention="internal", isolation="batch"), "FAIL") == expected


def test_padding_masked_by_id_takes_every_end_from_the_targets():
    """Case 13: 8 targets of 11."""
    items = diagnosed(masked_by_id, pad=EOS, convention="internal")
    assert statuses(items, "FAIL") == {SCORED, END, PADDING, EFFECTIVE}
    assert items[END]["counts"] == {"ends": 3, "missing": 3} and items[EFFECTIVE]["counts"]["effective_targets"] == 8


def test_restarting_positions_alone_prove_no_isolation():
    """Case 16."""
    items = diagnosed(lambda d: without(packed(d), "segment_ids"), convention="internal")
    assert items[ISOLATED]["status"] == "cannot tell" and not statuses(items, "FAIL")


def test_blocks_cut_from_a_long_document_never_score_their_first_tokens():
    """The note's ten tokens in blocks of four: tokens 4 and 8 are never scored."""
    def cut(documents):
        return padded([ids[i:i + 4] for ids in documents for i in range(0, len(ids), 4)])

    items = diagnosed(cut, lengths=(10, 4), convention="internal")
    assert statuses(items, "FAIL") == {SCORED, EFFECTIVE}
    assert "document 0: tokens 4, 8" in items[SCORED]["reason"]


# ------------------------------------------------------------------------------------------- command


MODULE = '''
import numpy as np
def good(documents):
    ids = documents[0] + documents[1]
    labels = [-100] + documents[0][1:] + [-100] + documents[1][1:]
    segments = [0] * len(documents[0]) + [1] * len(documents[1])
    positions = [*range(len(documents[0])), *range(len(documents[1]))]
    return {"input_ids": ids, "labels": labels, "segment_ids": segments, "position_ids": positions, "idx": 3}
def bad(documents):
    return good(documents) | {"labels": documents[0] + documents[1]}
def broken(documents):
    raise KeyError("text")
def nothing(documents):
    return None
def ragged(documents):
    return {"input_ids": documents, "labels": [ids[1:] for ids in documents]}
def elsewhere(documents):
    return {"input_ids": [[7, 7, 7]]}
def endless(documents):
    while True:
        yield good(documents)
def each_shifted(documents):
    w = max(map(len, documents)) - 1
    return (np.array([d[:-1] + [0] * (w + 1 - len(d)) for d in documents]),
            np.array([d[1:] + [-100] * (w + 1 - len(d)) for d in documents]))
def prompted(documents):
    return good(documents) | {"labels": [-7, -7] + documents[0][2:] + [-7, -7] + documents[1][2:]}
def own_names(documents):
    batch = good(documents)
    return {"x": batch["input_ids"], "y": batch["labels"], "part": batch["segment_ids"]}
'''


def command(tmp_path, function, *arguments):
    path = tmp_path / "mine.py"
    path.write_text(MODULE)
    return run_script(script.main, [f"{path}:{function}", "--lengths", "4", "3", *arguments])


def test_the_command_prints_every_item_writes_json_and_ends_with_0_or_1(tmp_path, capsys):
    assert command(tmp_path, "good", "--json", str(tmp_path / "out.json")) == 0
    out = capsys.readouterr().out
    assert "12 items: 9 ok, 0 FAIL, 1 cannot tell, 2 not applied" in out and "not read: idx" in out
    record = read_json(tmp_path / "out.json")
    assert len(record["items"]) == 12 and record["documents"] == [[1, 10, 11, 2], [1, 12, 2]]
    assert record["batches"][0]["input_ids"] == [1, 10, 11, 2, 1, 12, 2]
    assert command(tmp_path, "bad") == 1
    assert "FAIL         boundary labels are ignored: 1 targets across documents" in capsys.readouterr().out


def test_documents_shifted_one_by_one_are_right(tmp_path, capsys):
    """A1: five targets of five."""
    assert command(tmp_path, "each_shifted", "--pad-id", "0", "--convention", "external") == 0
    assert " 0 FAIL" in (out := capsys.readouterr().out) and "5 inside documents (5 expected)" in out


def test_prompts_and_ignored_ids_are_declared_by_option_or_beside_the_documents(tmp_path, capsys):
    prompted = ["prompted", "--convention", "internal"]
    assert command(tmp_path, *prompted) == 0
    assert "cannot tell  every target is scored once" in capsys.readouterr().out
    assert command(tmp_path, *prompted, "--prompt-tokens", "2", "--ignore-id", "-7") == 0
    assert "ok           every target is scored once" in capsys.readouterr().out
    assert command(tmp_path, *prompted, "--prompt-tokens", "0") == 1
    assert command(tmp_path, *prompted, "--ignore-id", "-100") == 1
    path = tmp_path / "documents.json"
    for last, code in ((1, 0), (0, 1)):
        path.write_text(json.dumps([{"ids": [1, 5, 6, 2], "targets": [0, 0, 1, 1]},
                                    {"ids": [1, 7, 2], "targets": [0, 0, last]}]))
        assert command(tmp_path, *prompted, "--documents", str(path)) == code
    path.write_text('[{"ids": [1, 5], "targets": [0]}, [1, 6]]')
    assert command(tmp_path, *prompted, "--documents", str(path)) == 2
    assert "document 0: targets" in capsys.readouterr().err
    assert command(tmp_path, *prompted, "--prompt-tokens", "1", "2", "3") == 2
    assert "--prompt-tokens" in capsys.readouterr().err


def test_keys_of_ones_own_are_read_as_declared(tmp_path, capsys):
    assert command(tmp_path, "own_names") == 2
    named = ["--read-as", "x=inputs", "y=labels", "part=segments"]
    assert command(tmp_path, "own_names", *named, "--convention", "internal", "--isolation", "batch") == 0
    assert "not read" not in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        command(tmp_path, "own_names", "--read-as", "x=colour")
    assert stopped.value.code == 2


def test_documents_of_the_readers_own_are_used(tmp_path, capsys):
    path = tmp_path / "documents.json"
    path.write_text("[[5, 6, 9], [5, 7, 8, 9]]")
    assert command(tmp_path, "good", "--documents", str(path), "--eos-id", "9") == 0
    assert "7 tokens, none lost" in capsys.readouterr().out
    for text, message in [("[[5]]", "two documents"), ('[[5], ["a"]]', "document 1: expected token ids"),
                          ("[[5, 6], [5]]", "document 1 .*no id of its own")]:
        path.write_text(text)
        assert command(tmp_path, "good", "--documents", str(path)) == 2
        assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize("function, message", [
    ("absent", "no function absent; it has bad, broken"), ("broken", "running it failed: KeyError: 'text' (mine.py:"),
    ("nothing", "returned NoneType"), ("ragged", "labels: expected rows of [4, 3] tokens as in the inputs, found [3,"),
    ("elsewhere", "no id of the documents is in the batch, which begins with [7, 7, 7]"),
    ("endless", "still yields after 1000 batches")])
def test_what_cannot_be_run_or_read_is_one_line_and_exit_code_2(tmp_path, capsys, function, message):
    assert command(tmp_path, function) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name, message", [
    ("json", "expected MODULE:FUNCTION"), ("nowhere.py:f", "no such file"), ("no_such_module:f", "importing it failed"),
    ("json:decoder", "no function decoder")])
def test_a_module_that_is_not_there_is_named(capsys, name, message):
    assert run_script(script.main, [name]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--lengths", "2", "4"], ["--lengths", "5"], ["--pad-in-text"]])
def test_documents_that_show_nothing_are_refused(tmp_path, arguments):
    with pytest.raises(InputError, match="--lengths|--pad-in-text"):
        script.main(["json:loads", *arguments])


# -------------------------------------------------------------------------------------- real collators


def label(case):
    return f"{case['function']} {case['options']['semantics']} {len(case['documents'][-1])}"


@pytest.mark.parametrize("case", FROZEN["cases"], ids=label)
def test_todays_checklist_says_of_the_frozen_batches_what_is_frozen_or_that_it_cannot_tell(case):
    """No library is needed: the batches are in the file. A status may have become "cannot tell", and no other."""
    isolation = "batch" if case["function"] == "trl_wrapped" else "auto"
    declared = Declared(**case["options"], isolation=isolation)
    again = diagnosis.diagnose(lambda documents: case["batches"], case["documents"], declared)["items"]
    for frozen, found in zip(case["items"], again, strict=True):
        known = {key: found["counts"].get(key) for key in frozen["counts"]}
        assert frozen["item"] == found["item"] and known == frozen["counts"]
        assert found["status"] in (frozen["status"], "cannot tell")


def test_the_frozen_record_says_what_these_versions_do():
    """The facts that the question's README states."""
    failed = {label(case): {item["item"] for item in case["items"] if item["status"] == "FAIL"}
              for case in FROZEN["cases"] if case["options"]["pad"] != PAD}
    assert FROZEN["versions"] == {"transformers": "4.57.1", "trl": "1.16.0"}
    assert failed["language_modeling_pad_is_eos independent 7"] == {SCORED, END, PADDING, EFFECTIVE}
    assert failed["flattening_numbered independent 7"] == failed["trl_padded independent 7"] == set()
    assert failed["flattening_lengths_alone independent 7"] == {POSITIONS}
    assert failed["trl_best_fit independent 11"] == LOST | {END}
    assert failed["trl_best_fit_split independent 11"] == failed["trl_wrapped continuous 11"] == {SCORED, EFFECTIVE}


def test_the_extras_pin_the_versions_of_the_frozen_record():
    lines = (HERE.parents[1] / "requirements-extra.txt").read_text().split()
    assert {f"{library}=={version}" for library, version in FROZEN["versions"].items()} <= set(lines)


@pytest.mark.extra
def test_the_real_collators_still_do_what_is_frozen(tmp_path, capsys):
    if any(importlib.util.find_spec(library) is None for library in FROZEN["versions"]):
        pytest.skip("transformers and trl are optional extras: pip install -r requirements-extra.txt")
    from research.batch_boundaries import real_collators

    assert run_script(real_collators.main, []) == 0
    assert f"{len(FROZEN['cases'])} cases" in capsys.readouterr().out


def test_missing_extras_are_named(monkeypatch, capsys):
    from research.batch_boundaries import real_collators

    monkeypatch.setattr(real_collators, "PINNED", {"no-such-library": "1"})
    assert run_script(real_collators.main, []) == 2
    assert "no-such-library is not installed: pip install -r requirements-extra.txt" in capsys.readouterr().err
    monkeypatch.setattr(real_collators, "PINNED", {"numpy": "0.0"})
    assert run_script(real_collators.main, []) == 2
    assert "numpy: expected version 0.0" in capsys.readouterr().err
