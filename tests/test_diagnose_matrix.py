"""diagnose.py passes every right batch in the forms in use and finds each fault that is planted in one of them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence import run_script
from research.batch_boundaries import audit_diagnose
from research.batch_boundaries.diagnosis import diagnose, make_documents, targets_after
from research.batch_boundaries.planted_batches import (
    alternative,
    build,
    declared_of,
    documents_of,
    inapplicable,
    same_arrays,
    targets_of,
)
from research.batch_boundaries.planted_faults import FAULTS
from research.batch_boundaries.planted_forms import FORMS, Form
from research.batch_boundaries.verdicts import Declared

FROZEN = Path(audit_diagnose.__file__).parent / "diagnose_matrix.json"
ISOLATED, SCORED, EFFECTIVE = "attention isolates documents", "every target is scored once", "effective targets"


def test_the_frozen_table_is_what_is_found_now(tmp_path):
    assert run_script(audit_diagnose.main, ["--json", str(tmp_path / "matrix.json")]) == 0
    assert (tmp_path / "matrix.json").read_bytes() == FROZEN.read_bytes()


def test_every_form_is_tried_with_eight_faults_or_more_and_every_fault_in_some_form():
    planted = {form: [fault for fault in FAULTS if not inapplicable(FORMS[form], fault)] for form in FORMS}
    assert min(map(len, planted.values())) >= 8 and len(FORMS) >= 30
    assert set().union(*planted.values()) == set(FAULTS)


@pytest.mark.parametrize("name", FORMS)
def test_cannot_tell_is_a_right_batch_of_another_convention_with_the_same_arrays(name):
    """The other convention is built, it is not excluded by what is declared, and under it nothing FAILs."""
    form = FORMS[name]
    for fault in FAULTS:
        if inapplicable(form, fault):
            continue
        items = audit_diagnose.diagnosed(form, build(form, fault))
        if items[FAULTS[fault].item][0] == "cannot tell":
            other = alternative(form, fault)
            assert form.prompts is None and same_arrays(other, build(form, fault))
            statuses = audit_diagnose.diagnosed(form._replace(prompts=(2, 1, 1)), other)
            assert "FAIL" not in [status for status, _ in statuses.values()]


@pytest.mark.parametrize("name", FORMS)
def test_right_batches_pass_also_where_their_user_declares_neither_convention_nor_isolation_nor_prompts(name):
    form = FORMS[name]
    declared = {key: value for key, value in form.declared.items() if key not in ("convention", "isolation")}
    result = diagnose(lambda documents: build(form), documents_of(form), declared_of(form._replace(declared=declared)))
    assert not [item for item in result["items"] if item["status"] == "FAIL"]


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(sorted(FORMS)), lengths=st.lists(st.integers(3, 9), min_size=2, max_size=5),
       spare=st.integers(0, 3))
def test_right_batches_pass_whatever_the_lengths(name, lengths, spare):
    form = FORMS[name]
    prompts = (2,) * len(lengths) if form.prompts else None
    form = form._replace(lengths=tuple(lengths), prompts=prompts, spare=spare if form.spare else 0)
    result = diagnose(lambda documents: build(form), documents_of(form), declared_of(form), targets_of(form))
    assert not [item for item in result["items"] if item["status"] == "FAIL"]


@st.composite
def mixed_forms(draw):
    """A form of any layout, convention, keys and special ids, with what its user would declare."""
    layout = draw(st.sampled_from(["padded", "left", "packed", "rows", "spaced"]))
    shift = draw(st.sampled_from(["internal", "row", "width", "document"]))
    keys = draw(st.sampled_from([{}, {"ignore": -1}, {"ignore": None, "loss": "loss_mask"}]))
    if layout == "left" or draw(st.booleans()):
        keys = keys | {"positions": "position_ids"}
    isolation = [{}, {"numbers": ("segment_ids", 0, -1)}, {"numbers": ("segment_ids", 1, 0)}, {"relation": "additive"},
                 {"relation": "True is masked"}, {"relation": "True reads", "heads": 2}]
    if layout == "packed":
        isolation += [{"ends": ("cu_seqlens",)}, {"ends": ("cu_seqlens",), "ends_of": "without padding"},
                      {"sizes": "seq_lens"}]
    chosen = draw(st.sampled_from(isolation))
    if "relation" not in chosen and draw(st.booleans()):
        keys = keys | {"mask": "attention_mask"}
    declared = {"convention": "internal" if shift == "internal" else "external"}
    if chosen and layout in ("packed", "rows", "spaced"):
        declared["isolation"] = "batch"
    lengths = tuple(draw(st.lists(st.integers(3, 9), min_size=2, max_size=5)))
    bos, eos = draw(st.sampled_from([(1, 2), (2, 2), (None, 2), (1, None)]))
    prompts = draw(st.sampled_from([None, (1,) * len(lengths), (2,) * len(lengths)]))
    return Form(layout, shift, keys | chosen, declared, prompts, bos, eos, pad=draw(st.sampled_from([0, 1, 2])),
                spare=draw(st.sampled_from([0, 2])), lengths=lengths)


@settings(max_examples=300, deadline=None)
@given(form=mixed_forms())
def test_right_batches_of_any_make_up_pass_also_where_padding_start_and_end_share_an_id(form):
    result = diagnose(lambda documents: build(form), documents_of(form), declared_of(form), targets_of(form))
    assert not [item for item in result["items"] if item["status"] == "FAIL"]


def test_the_table_counts_a_missed_fault_and_a_condemned_batch(monkeypatch, capsys):
    """A checklist that always says ok misses every fault; one that always FAILs condemns every right batch."""
    for status, said in (("ok", "caught: 0, cannot tell: 0"), ("FAIL", "condemned: 32")):
        def always(form, batch, status=status):
            return {fault.item: (status, {}) for fault in FAULTS.values()} | {EFFECTIVE: (status, {
                "effective_targets": 0})}

        monkeypatch.setattr(audit_diagnose, "diagnosed", always)
        assert audit_diagnose.main([]) == 1
        assert said in capsys.readouterr().out


# ------------------------------------------------------------------------- further right batches


DOCUMENTS = make_documents([4, 3, 7], bos=1, eos=2, pad=0, pad_in_text=False, first_id=10)
INTERNAL = Declared(pad=0, convention="internal")


def statuses(batch, declared=INTERNAL, prompts=None):
    """{item: status}, and the notes, of a batch of DOCUMENTS."""
    targets = targets_after(prompts, DOCUMENTS) if prompts else None
    result = diagnose(lambda documents: batch, DOCUMENTS, declared, targets)
    return {item["item"]: item["status"] for item in result["items"]}, result["notes"]


def packed(**more):
    ids = np.concatenate(DOCUMENTS)[None]
    labels = np.where(ids == 1, -100, ids)
    return {"input_ids": ids, "labels": labels} | more


NUMBERS = np.repeat([0, 1, 2], [4, 3, 7])[None]
READS = np.tri(14, dtype=bool) & (NUMBERS[0][:, None] == NUMBERS[0])


@pytest.mark.parametrize("mask", [
    READS[None, None], ~READS[None, None], np.where(READS, 0, -1e9)[None, None], READS[None],
    torch.where(torch.from_numpy(READS), 0.0, torch.finfo(torch.bfloat16).min)[None, None].bfloat16(),
    np.where(READS, -0.5 * abs(np.subtract.outer(np.arange(14), np.arange(14))), -np.inf)[None, None]],
    ids=["boolean", "inverted", "additive", "three dimensions", "bfloat16", "with distance biases"])
def test_masks_of_either_polarity_and_additive_ones_are_read(mask):
    assert statuses(packed(attention_mask=mask))[0][ISOLATED] == "ok"


def test_one_head_that_reads_too_much_or_too_little_fails_though_the_other_is_right():
    for wrong in (np.tri(14, dtype=bool), np.eye(14, dtype=bool)):
        mask = np.stack([READS, wrong])[None]
        assert statuses(packed(attention_mask=mask))[0][ISOLATED] == "FAIL"


def test_attention_windows_and_a_mask_without_the_causal_rule_cannot_be_told():
    distance = np.subtract.outer(np.arange(14), np.arange(14))
    for mask in (READS & (distance < 3), NUMBERS[0][:, None] == NUMBERS[0]):
        assert statuses(packed(attention_mask=mask[None, None]))[0][ISOLATED] == "cannot tell"


def test_a_padding_mask_for_all_heads_and_queries_is_read():
    rows = [ids + [0] * (7 - len(ids)) for ids in DOCUMENTS]
    ids = np.array(rows)
    batch = {"input_ids": ids, "labels": np.where((ids == 0) | (ids == 1), -100, ids),
             "attention_mask": (ids != 0)[:, None, None]}
    assert "FAIL" not in statuses(batch)[0].values()
    batch["attention_mask"] = np.ones_like(ids)[:, None, None]
    assert statuses(batch)[0]["padding is found by length"] == "FAIL"


def test_a_key_that_was_not_read_makes_a_fail_cannot_tell_until_its_meaning_is_said():
    weights = (np.concatenate(DOCUMENTS) != 1).astype(float)[None]
    batch = packed(labels=np.concatenate(DOCUMENTS)[None], my_weights=weights, my_documents=NUMBERS)
    found = statuses(batch, Declared(pad=0, convention="internal", isolation="batch"))[0]
    assert found["boundary labels are ignored"] == found[ISOLATED] == "cannot tell"
    named = {"my_weights": "loss", "my_documents": "segments"}
    found = statuses(batch, Declared(pad=0, convention="internal", isolation="batch", read_as=named))[0]
    assert "FAIL" not in found.values() and found["boundary labels are ignored"] == found[ISOLATED] == "ok"
    nothing = {"my_weights": "nothing", "my_documents": "nothing"}
    found = statuses(batch, Declared(pad=0, convention="internal", isolation="batch", read_as=nothing))[0]
    assert found["boundary labels are ignored"] == found[ISOLATED] == "FAIL"


def test_of_two_label_keys_the_other_is_named_and_may_decide():
    batch = packed(targets=packed()["labels"])
    found, notes = statuses(batch | {"labels": batch["input_ids"]})
    assert found["boundary labels are ignored"] == "cannot tell" and any("targets" in note for note in notes)
    same, notes = statuses(batch)
    assert "FAIL" not in same.values() and not notes


def test_padding_with_a_sequence_of_its_own_is_noted_and_in_a_real_sequence_it_fails():
    """A3: the length of a real document must be right."""
    batch = {key: np.pad(value, [(0, 0), (0, 2)], constant_values=-100 if key == "labels" else 0)
             for key, value in packed().items()}
    found, notes = statuses(batch | {"cu_seqlens": [0, 4, 7, 14, 16]})
    assert "FAIL" not in found.values() and any("cu_seqlens numbers 2" in note for note in notes)
    assert "FAIL" not in statuses(batch | {"cu_seqlens": [0, 4, 7, 14]})[0].values()
    for ends in ([0, 4, 7, 16], [0, 4, 16], [0, 5, 7, 14, 16]):
        assert statuses(batch | {"cu_seqlens": ends})[0][ISOLATED] == "FAIL"


def test_a_prompt_of_any_length_cannot_be_told_unless_it_is_said():
    for prompt in (2, 3, 4):
        labels = [token if offset >= prompt else -100 for ids in DOCUMENTS for offset, token in enumerate(ids)]
        batch = packed(labels=np.array([labels]), segment_ids=NUMBERS)
        found = statuses(batch)[0]
        assert "FAIL" not in found.values() and found[SCORED] == found[EFFECTIVE] == "cannot tell"
        found = statuses(batch, prompts=[prompt])[0]
        assert "FAIL" not in found.values() and found[SCORED] == found[EFFECTIVE] == "ok"
        for declared in ([0], [prompt - 1], [prompt + 1]):
            assert declared == [1] or statuses(batch, prompts=declared)[0][SCORED] == "FAIL"


def test_two_ignored_ids_are_named_and_a_stated_one_alone_is_ignored():
    batch = packed(segment_ids=NUMBERS)
    batch["labels"][0, 0] = -1
    found, notes = statuses(batch)
    assert "FAIL" not in found.values() and any("-100 and -1" in note for note in notes)
    only = Declared(pad=0, convention="internal", ignore=(-1,))
    assert statuses(batch, only)[0]["labels are shifted once"] == "FAIL"
