"""Every key of a protocol is needed, known, typed and consistent with the others; what is wrong is named."""

import copy
from pathlib import Path

import pytest

from evidence import InputError, read_json, write_json
from protocols.schema import EVALUATION, check_protocol, protocol_runs, read_evaluation, study_protocols

FOLDER = Path(__file__).resolve().parents[1] / "protocols"
PROTOCOLS = {path.stem: read_json(path) for path in study_protocols(FOLDER)}


def objects(value, path=()):
    """Every (path, object) inside a JSON value, itself first."""
    if isinstance(value, dict):
        yield path, value
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from objects(item, (*path, key))


def leaves(value, path=()):
    if not isinstance(value, (dict, list)):
        yield path
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from leaves(item, (*path, key))


def at(protocol, path):
    for key in path:
        protocol = protocol[key]
    return protocol


def refusal(protocol):
    with pytest.raises(InputError) as caught:
        check_protocol(protocol, "here.json")
    return str(caught.value)


@pytest.mark.parametrize("study_name", PROTOCOLS)
def test_the_frozen_protocols_are_accepted(study_name):
    assert check_protocol(PROTOCOLS[study_name], study_name) is None
    assert len(list(leaves(PROTOCOLS[study_name]))) > 60


@pytest.mark.parametrize("study_name", PROTOCOLS)
def test_any_missing_or_unknown_key_at_any_level_is_named(study_name):
    tried = 0
    for path, value in list(objects(PROTOCOLS[study_name])):
        if path == ("conditions",):
            continue  # its keys are the user's own
        for key in value:
            changed = copy.deepcopy(PROTOCOLS[study_name])
            del at(changed, path)[key]
            assert str(key) in refusal(changed)
            tried += 1
        changed = copy.deepcopy(PROTOCOLS[study_name])
        at(changed, path)["surplus"] = 1
        message = refusal(changed)
        assert "surplus" in message and ".".join(map(str, path)) in message
    assert tried > 60


@pytest.mark.parametrize("study_name", PROTOCOLS)
@pytest.mark.parametrize("wrong", [None, [], {}, -1, "", float("inf")], ids=repr)
def test_a_value_of_the_wrong_type_anywhere_is_named(study_name, wrong):
    for path in leaves(PROTOCOLS[study_name]):
        changed = copy.deepcopy(PROTOCOLS[study_name])
        at(changed, path[:-1])[path[-1]] = wrong
        assert str(next(key for key in reversed(path) if isinstance(key, str))) in refusal(changed)


def test_true_is_no_number_and_one_is_no_flag():
    for path in leaves(PROTOCOLS["demo"]):
        changed = copy.deepcopy(PROTOCOLS["demo"])
        at(changed, path[:-1])[path[-1]] = 1 if isinstance(at(changed, path), bool) else True
        refusal(changed)


@pytest.mark.parametrize("path, value, reason", [
    (("study",), "../up", "study"),
    (("conditions",), {}, "conditions"),
    (("conditions",), {"Base line": "best_fit_crop"}, "Base line"),
    (("seeds",), [43, 43], "distinct"),
    (("seeds",), [], "seeds"),
    (("corpus", "kind"), "tape", "download, wheels"),
    (("corpus", "validation_shard"), "shard_00000.parquet", "distinct"),
    (("corpus", "wheels", 0, "file"), "../x.whl", "plain file name"),
    (("tokenizer", "bos"), "<|other|>", "tokenizer.bos"),
    (("tokenizer", "vocabulary"), 259, "256 bytes"),
    (("model", "heads"), 3, "model.width"),
    (("model", "gate_channels"), 129, "gate_channels"),
    (("model", "window_pattern"), "SM", "S and L"),
    (("training", "precision"), "float16", "bfloat16"),
    (("audit", "strata"), [32, 512, 128], "ascending"),
    (("evaluation", "targets"), 1, "packing.context = "),
])
def test_contradictions_are_named(path, value, reason):
    changed = copy.deepcopy(PROTOCOLS["demo"])
    at(changed, path[:-1])[path[-1]] = value
    assert reason in refusal(changed)


# ------------------------------------------------------------------------------------ evaluation_<study>.json

EVALUATIONS = {path.stem: read_json(path) for path in sorted(FOLDER.glob("evaluation_*.json"))}


def refused(folder, section, content):
    """The refusal of an evaluation protocol that holds this content as its section, the others as they are."""
    write_json(folder / "e.json", {**EVALUATIONS["evaluation_wheels"], section: content})
    with pytest.raises(InputError) as caught:
        read_evaluation(folder / "e.json", section)
    return str(caught.value)


@pytest.mark.parametrize("name", EVALUATIONS)
@pytest.mark.parametrize("section", EVALUATION)
def test_the_sections_of_the_evaluation_protocols_are_read(name, section):
    assert read_evaluation(FOLDER / f"{name}.json", section) == EVALUATIONS[name][section]


@pytest.mark.parametrize("section", EVALUATION)
def test_any_missing_unknown_or_wrong_part_of_an_evaluation_protocol_is_named(tmp_path, section):
    whole = EVALUATIONS["evaluation_wheels"][section]
    for path, value in objects(whole):
        for key in value:
            changed = copy.deepcopy(whole)
            del at(changed, path)[key]
            assert key in refused(tmp_path, section, changed)
        changed = copy.deepcopy(whole)
        at(changed, path)["surplus"] = 1
        assert "surplus" in refused(tmp_path, section, changed)
    for path in leaves(whole):
        for wrong in (None, [], {}, -1, "", 0.5, True):
            changed = copy.deepcopy(whole)
            at(changed, path[:-1])[path[-1]] = wrong
            message = refused(tmp_path, section, changed)
            assert next(key for key in reversed(path) if isinstance(key, str)) in message


def test_an_evaluation_protocol_has_known_sections_and_the_one_that_is_asked_for(tmp_path):
    write_json(tmp_path / "e.json", {"confirmation": None, "more": 1})
    with pytest.raises(InputError, match="e.json: unknown key more"):
        read_evaluation(tmp_path / "e.json", "confirmation")
    write_json(tmp_path / "e.json", {"confirmation": None})
    assert read_evaluation(tmp_path / "e.json", "confirmation") is None
    with pytest.raises(InputError, match="e.json: missing key prefix_ranking"):
        read_evaluation(tmp_path / "e.json", "prefix_ranking")
    write_json(tmp_path / "e.json", [])
    with pytest.raises(InputError, match="e.json: expected an object, found list"):
        read_evaluation(tmp_path / "e.json", "confirmation")


# ------------------------------------------------------------------------------- optional keys and bounds

ORDER = {"kind": "order", "unit": "row", "block_updates": 16, "generator": "PCG64", "seed": 1}
TABLE = {"kind": "substitute", "table": "substitution_a.json", "sha256": "0" * 64}
OPTIONAL = {"prepared": "wheels", "runs": [["baseline", 43], ["segmented", 43], ["random_crop", 44]], "captures": 4,
            "edits": {"baseline": [ORDER, TABLE]}}


def test_a_protocol_may_name_other_data_list_its_runs_edit_plans_and_ask_for_captures():
    demo = PROTOCOLS["demo"]
    assert list(protocol_runs(demo))[:4] == ["baseline_s43", "random_crop_s43", "segmented_s43", "baseline_s44"]
    check_protocol({**demo, **OPTIONAL}, "here.json")
    assert protocol_runs({**demo, **OPTIONAL}) == {
        "baseline_s43": ("baseline", 43), "segmented_s43": ("segmented", 43), "random_crop_s44": ("random_crop", 44)}


@pytest.mark.parametrize("key, value, named", [
    ("runs", [["baseline", 43], ["baseline", 43]], "runs"),
    ("runs", [["baseline", 43], ["other", 44]], "other"),
    ("runs", [["baseline", 43], ["random_crop", 44]], "segmented"),
    ("runs", [["baseline", 45], ["segmented", 43], ["random_crop", 44]], "45"),
    ("runs", [["baseline"]], "runs.0"),
    ("edits", {"other": [ORDER]}, "other"),
    ("edits", {"baseline": []}, "edits.baseline"),
    ("edits", {"baseline": [{**ORDER, "kind": "mirror"}]}, "edits.baseline.0.kind"),
    ("edits", {"baseline": [{**ORDER, "unit": "token"}]}, "edits.baseline.0.unit"),
    ("edits", {"baseline": [{**ORDER, "generator": "MT19937"}]}, "edits.baseline.0.generator"),
    ("edits", {"baseline": [{**TABLE, "table": "config.json"}]}, "edits.baseline.0.table"),
    ("captures", 0, "captures"), ("prepared", None, "prepared"),
])
def test_a_wrong_optional_key_is_named(key, value, named):
    message = refusal({**PROTOCOLS["demo"], key: value})
    assert key in message and named in message


@pytest.mark.parametrize("section, key, value", [
    ("model", "width", 1 << 40), ("packing", "buffer_size", 10**30), ("packing", "span_seed", 10**30),
    ("packing", "context", 10**30), ("training", "updates", 10**30), ("training", "threads", 10**6),
    ("tokenizer", "vocabulary", 10**30), ("evaluation", "targets", 1 << 60), ("model", "softcap", 1e300)])
def test_a_value_beyond_what_can_be_is_refused_by_key(section, key, value):
    demo = PROTOCOLS["demo"]
    assert f"{section}.{key}" in refusal({**demo, section: {**demo[section], key: value}})


def test_seeds_are_those_that_the_generator_distinguishes():
    """torch's generator on the CPU reads 32 bits: 43 and 43 + 2 ** 32 would be one model."""
    assert "seeds.1" in refusal({**PROTOCOLS["demo"], "seeds": [43, 43 + 2**32]})
    check_protocol({**PROTOCOLS["demo"], "seeds": [43, 2**32 - 1]}, "here.json")
