"""The frozen stream audits balance without data: what their own numbers, lengths, protocol or runs refute is named."""

import copy
import random
import re

import pytest

from evidence import Checks, InputError
from research.source_exclusion import verify_ledgers
from research.source_exclusion.rebuilt_ledgers import longest
from tiny.lies import copy_evidence, edit

# What only the lengths give; everything else of an audit is decided by the rest of it.
UNBOUND = re.compile(r"usable_buffer|first_over_capacity_start|crops|selections|shortest|"
                     r"segmented\.(protected\.share_of_buffered|over_capacity\.share_of_emitted_tokens)")


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    return copy_evidence(tmp_path_factory.mktemp("frozen"))


@pytest.fixture
def root(tmp_path):
    return copy_evidence(tmp_path)


def verify(root, capsys):
    """(exit code, the lines that failed, everything printed)."""
    capsys.readouterr()
    code = verify_ledgers.main(["--root", str(root)])
    printed = capsys.readouterr().out
    return code, [line for line in printed.splitlines() if line.startswith("FAIL")], printed


def test_all_frozen_audits_balance_and_every_kind_is_looked_at(frozen, capsys):
    code, failures, printed = verify(frozen, capsys)
    assert (code, failures) == (0, [])
    for what in ("wheels baseline: balance", "demo evaluation: balance", "repeated lossless: arrivals of the length",
                 "permutations: stored order of the audit", "served baseline: tokens that arrive in pass 2",
                 "segmented_s44: audited stream of the trained run", "length histogram: inputs"):
        assert what in printed


def headline(audit):
    """The reviewer's lie: more documents started, half of what is protected, tokens out of nothing."""
    record = audit["training"]["baseline"]
    record["documents"]["started"] = 5970
    record["protected"]["tokens"] //= 2
    record["tokens"]["buffered"] += 12345


def test_an_invented_headline_is_named_by_its_parts(root, capsys):
    edit(root / "research/source_exclusion/wheels.json", headline)
    code, failures, _ = verify(root, capsys)
    assert code == 1
    for what in ("balance.documents", "sums of strata", "protected.share_of_arrived", "positions", "stored order"):
        assert any(what in line for line in failures), failures


def balanced_headline(audit):
    """Tokens moved from the buffer to what arrived, in the total and in a stratum, every ratio of them made again."""
    record = audit["training"]["baseline"]
    for part in (record, record["strata"][-1]):
        part["tokens"]["arrived"] -= 10**6
        part["tokens"]["buffered"] -= 10**6
    kept, last, tokens = record["protected"], record["strata"][-1], record["tokens"]
    last["retained_share"] = last["tokens"]["emitted"] / last["tokens"]["arrived"]
    kept["tokens"] -= 10**6
    kept["share_of_arrived"], kept["share_of_buffered"] = (kept["tokens"] / tokens[t] for t in ("arrived", "buffered"))


def swap_conditions(audit):
    training = audit["training"]
    training["baseline"], training["random_crop"] = training["random_crop"], training["baseline"]


def shorter(audit):
    """Another context, told alike everywhere."""
    audit["capacity"] -= 1
    for record in [*audit["training"].values(), audit["evaluation"]]:
        record["targets"] -= record["rows"]


@pytest.mark.parametrize("name, lie, named", [
    ("wheels", balanced_headline, "wheels baseline: positions.text tokens of arrivals"),
    ("wheels", swap_conditions, "baseline_s43: audited stream of the trained run.plan_sha256"),
    ("wheels", lambda v: v["evaluation"].update(plan_sha256="0" * 64), "stream of the trained run.evaluation[1]"),
    ("wheels", shorter, "wheels: of the protocol.capacity"),
    ("wheels", lambda v: v["training"].pop("segmented"), "wheels: conditions"),
    ("wheels", lambda v: v["inputs"][0].update(sha256="0" * 64), "wheels: inputs.data/wheels/"),
    ("length_histogram_wheels", lambda v: v["inputs"][0].update(sha256="0"), "length histogram: inputs.data/"),
    ("length_histogram_wheels", lambda v: v["inputs"][1].update(sha256="0"), "length histogram: inputs.protocols/"),
    ("repeated_wheels", lambda v: v.update(passes=4), "repeated: passes and policies[0]"),
    ("repeated_wheels", lambda v: v["training"]["lossless"]["protected"].update(shortest=5000), "longest of the"),
    ("permutations_wheels", lambda v: v["ranges"]["protected_share"].update(least=0.1), "ranges.protected_share.least"),
    ("permutations_wheels", lambda v: v["orders"][3].update(started=1), "balance of each order[3].started"),
    ("permutations_wheels", lambda v: v["as_stored"].update(buffered_tokens=1), "stored order of the audit.buffered"),
    ("served_wheels", lambda v: v["passes"][1].update(buffered=v["passes"][1]["buffered"] + 1), "arrive in pass 2"),
    ("served_wheels", lambda v: v["passes"][3].update(protected=0), "served baseline: protected tokens[3]"),
    ("served_wheels", lambda v: v["classes"][2]["bound"].update({"pass": 3}), "earliest passes[2][2]"),
    ("served_wheels", lambda v: v["classes"][2]["first_begun"].update(arrived=9), "classes begun before their bound"),
    ("served_wheels", lambda v: v["steady"]["last_passes"].update(emitted=1), "tokens of the last passes"),
    ("served_wheels", lambda v: v["steady"]["last_passes"].update(started_from_1=1), "begun in the last passes.1"),
    ("served_wheels", lambda v: v["longest"][0].update(length=10**6), "longest documents and lengths over a row[0][0]"),
    ("served_wheels", lambda v: v.update(documents=28000), "served baseline: corpus of the length histogram[0]"),
    ("served_wheels", lambda v: v.update(documents=0), "not the evidence of this question: ZeroDivisionError"),
])
def test_a_lie_that_other_frozen_numbers_refute_is_named(root, name, lie, named, capsys):
    edit(root / f"research/source_exclusion/{name}.json", lie)
    code, failures, _ = verify(root, capsys)
    assert code == 1 and any(named in line for line in failures), failures


def leaves(value, path=()):
    """Every path to a number, text, truth value or null."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path
    for key, item in items or ():
        yield from leaves(item, (*path, key))


def changed(value, path):
    """A copy with the smallest change at a path."""
    value = at = copy.deepcopy(value)
    for key in path[:-1]:
        at = at[key]
    old = at[path[-1]]
    kinds = {bool: lambda: not old, int: lambda: old + 1, float: lambda: old * 1.0001 + 1e-9, type(None): lambda: 0,
             str: lambda: ("0" if old[0] != "0" else "1") + old[1:]}
    at[path[-1]] = kinds[type(old)]()
    return value


def test_a_number_changed_alone_is_found_unless_only_the_lengths_give_it(frozen, capsys):
    """Of a seeded sample of the places."""
    study = verify_ledgers.Study(frozen, frozen / "protocols/demo.json")
    audit = study.audit
    places = [path for path in leaves(audit) if not UNBOUND.search(".".join(map(str, path)))]
    assert len(places) > 1000
    for path in random.Random(3).sample(places, 80):
        study.audit, checks = changed(audit, path), Checks()
        verify_ledgers.check_study(checks, study)
        assert checks.failed, path
    study.audit, checks = audit, Checks()
    verify_ledgers.check_study(checks, study)
    assert checks.made and not checks.failed


def test_the_longest_arrivals_are_those_of_a_plain_sort():
    pairs = [[2, 3], [5, 4], [7, 1], [9, 2]]
    for passes, size in ((1, 1), (1, 3), (2, 5), (3, 100)):
        lengths = sorted((length for length, count in pairs for _ in range(passes * count) if length > 4), reverse=True)
        kept = lengths[:size - 1]
        assert longest(pairs, passes, 4, size) == (sum(kept), kept[-1] if kept else None)


def test_what_is_not_there_is_left_out_by_name_and_evidence_of_another_kind_fails(root, capsys):
    folder = root / "research/source_exclusion"
    gone = [folder / "length_histogram_wheels.json", root / "manifests/wheels.sha256",
            root / "research/matched_training/wheels.json", folder / "served_wheels.json"]
    for path in gone:
        path.unlink()
    code, failures, printed = verify(root, capsys)
    assert (code, failures) == (0, []) and all(f"left out {path}: not here" in printed for path in gone)
    edit(folder / "wheels.json", lambda audit: audit.pop("evaluation"))
    code, failures, _ = verify(root, capsys)
    assert code == 1 and failures == ["FAIL wheels: not the evidence of this question: KeyError: 'evaluation'"]


def test_no_audit_is_no_success(tmp_path):
    with pytest.raises(InputError, match="no audit of a study"):
        verify_ledgers.main(["--root", str(tmp_path)])
