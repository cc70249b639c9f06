"""The audit's quantities equal a count of single tokens by a list loader, and false accounts, runs and ranks are found.

Cases 1, 5, 6 (lossless: nothing lost), 9B, 10 and 12 of cases that tools of this kind got wrong, and hostile inputs.
"""

import json
import runpy

import audited_study
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from list_packer import ListPacker

import audit_stream
import streams
from audit_inputs import read_counts
from audit_records import Unbalanced, audit, usable_buffer
from evidence import InputError, read_json, write_json
from loaders.accounting import ARRIVAL, COUNT, START
from streams import POLICIES, batches_taken, counted_by_ranks, deal, make_packing, rank_streams, whole_stream

CASE_1B = [9, 30, 14, 20, 6, 5, 12, 3, 25, 4, 40]  # the 40 keeps the second pass out of the way
EDGES = [4, 12]


def audited(policy, lengths, refill, capacity, buffer_size, rows, seed=7):
    """The record of one stream, with its plan."""
    packing = make_packing(POLICIES[policy][0], capacity, buffer_size, seed)
    stream = whole_stream(np.array(lengths), np.array(refill))
    plan = packing.plan(stream, rows)
    return audit(plan, stream, packing, EDGES, stream.lengths, rows)[0], plan, stream, packing


class WatchedPacker(ListPacker):
    """The list packer, noting before each placement the entries that fit a row, all entries, and arrivals."""

    def __init__(self, *arguments, **settings):
        self.seen = []
        super().__init__(*arguments, **settings)

    def place(self, space):
        fitting = sum(len(span) <= self.capacity for span in self.buffer)
        self.seen.append((fitting, len(self.buffer), self.arrived))
        return super().place(space)


@st.composite
def worlds(draw):
    """(lengths, refill, capacity, buffer_size, rows) of a small stream, long and empty documents among them."""
    lengths = draw(st.lists(st.integers(1, 20), min_size=1, max_size=8))
    cuts = sorted(draw(st.sets(st.integers(1, len(lengths) - 1)))) if len(lengths) > 1 else []
    refill = np.diff([0, *cuts, len(lengths)]).tolist()
    return lengths, refill, draw(st.integers(2, 9)), draw(st.integers(1, 5)), draw(st.integers(1, 8))


def packed(policy, world):
    lengths, refill, capacity, buffer_size, rows = world
    return WatchedPacker(lengths, refill=refill, capacity=capacity, buffer_size=buffer_size, rows=rows,
                         policy=POLICIES[policy][0], seed=7)


every_policy = pytest.mark.parametrize("policy", POLICIES)


@every_policy
@settings(max_examples=120, deadline=None)
@given(world=worlds())
def test_usable_buffer_and_arrivals_equal_those_of_a_list_loader_at_every_selection(policy, world):
    _, plan, stream, packing = audited(policy, *world)
    fitting, held = usable_buffer(plan, stream, packing)
    passes, batch = np.divmod(batches_taken(plan, stream, packing), len(stream.refill))
    arrived = passes * len(stream.lengths) + np.concatenate([[0], np.cumsum(stream.refill)])[batch]
    assert list(zip(fitting.tolist(), held.tolist(), arrived.tolist())) == packed(policy, world).seen


@every_policy
@settings(max_examples=120, deadline=None)
@given(world=worlds())
def test_strata_and_positions_equal_a_count_of_single_tokens(policy, world):
    lengths, _, capacity, *_ = world
    record, slow = audited(policy, *world)[0], packed(policy, world)
    shown = {token for row in slow.rows for token in row}
    length = [lengths[a % len(lengths)] for a in range(slow.arrived)]
    for low, high, stratum in zip([0, *EDGES], [*EDGES, 10**9], record["strata"]):
        inside = {a for a, size in enumerate(length) if low < size <= high}
        assert stratum["documents"]["arrived"] == len(inside)
        assert stratum["documents"]["started"] == len({a for a, _ in shown} & inside)
        assert stratum["tokens"]["emitted"] == sum(a in inside for row in slow.rows for a, _ in row)
        assert stratum["tokens"]["buffered"] == sum(a in inside for span in slow.buffer for a, _ in span)
        assert stratum["tokens"]["discarded"] == sum(a in inside for a, _ in slow.discarded)
    text = [(a, n - 1) for a, n in shown if n != "bos" and n > 0]
    for name, fits in (("fits_a_row", True), ("longer_than_a_row", False)):
        tenths = [10 * p // (length[a] - 1) for a, p in text if (length[a] <= capacity) is fits]
        assert [emitted for _, emitted in record["positions"]["relative"][name]] == [tenths.count(t) for t in range(10)]
    for low, high, found in zip([0, *EDGES], [*EDGES, 10**9], record["positions"]["absolute"]):
        assert found["emitted"] == sum(low <= p < high for _, p in text)
        assert found["arrived"] == sum(low <= p < high for size in length for p in range(size - 1))


@every_policy
@settings(max_examples=120, deadline=None)
@given(world=worlds())
def test_documents_are_sorted_by_the_share_of_positions_seen_over_all_passes(policy, world):
    lengths = world[0]
    record, slow = audited(policy, *world)[0], packed(policy, world)
    seen = {(a % len(lengths), n) for row in slow.rows for a, n in row if n != "bos" and n > 0}
    expected = dict.fromkeys(record["positions"]["documents_by_share_seen"], 0)
    for document in range(min(len(lengths), slow.arrived)):
        text, count = lengths[document] - 1, sum(d == document for d, _ in seen)
        quarters = {"up_to_a_quarter": 0.25, "up_to_a_half": 0.5, "up_to_three_quarters": 0.75, "more_but_not_all": 1}
        name = ("without_text" if text == 0 else "nothing" if count == 0 else "everything" if count == text
                else next(name for name, most in quarters.items() if count / text <= most))
        expected[name] += 1
    assert record["positions"]["documents_by_share_seen"] == expected


def test_case_1b_account_and_never_started_documents():
    record, *_ = audited("baseline", CASE_1B, [1] * 11, 11, 4, 4)
    tokens = {name: record["tokens"][name] for name in ("arrived", "emitted", "discarded", "buffered")}
    assert tokens == {"arrived": 128 + 40, "emitted": 44, "discarded": 29, "buffered": 55 + 40}
    assert record["documents"]["cropped"] == 4 and record["documents"]["unstarted"] == 2 + 1
    assert record["first_over_capacity_start"] == {"segment": 3, "arrival": 6, "length": 12, "target_offset": 10 + 5 - 1}


def test_case_1c_a_document_drawn_first_and_never_started_is_not_called_dropped():
    record, *_ = audited("baseline", [100] + [4] * 30, [1] * 31, 8, 3, 5)
    assert record["tokens"] == {"arrived": 144, "synthetic_bos": 0, "emitted": 40, "discarded": 0, "buffered": 104, "utilisation": 1.0}
    assert record["strata"][-1]["documents"]["unstarted"] == 1 and record["strata"][-1]["started_share"] == 0.0
    assert record["protected"]["documents"] == 1 and record["protected"]["started"] == 0
    assert record["first_over_capacity_start"] is None


def test_case_6_lossless_discards_nothing_and_keeps_the_rest_in_the_buffer():
    crop, lossless = (audited(policy, [7, 3, 5, 1], [4], 4, 4, 4)[0]["tokens"] for policy in ("baseline", "lossless"))
    assert crop["discarded"] > 0 and lossless["discarded"] == 0
    assert lossless["arrived"] == lossless["emitted"] + lossless["buffered"]


def test_case_12_totals_and_offsets_beyond_32_bits_are_exact():
    record, *_ = audited("baseline", [1_200_000_000] * 3, [3], 2049, 4, 2)
    assert record["tokens"]["arrived"] == 6 * 1_200_000_000
    assert record["tokens"]["discarded"] == 2 * (1_200_000_000 - 2049)
    assert record["positions"]["relative"]["longer_than_a_row"][9][0] == sum(
        1_199_999_999 - -(-9 * 1_199_999_999 // 10) for _ in range(6))


def test_case_5_files_read_by_no_rank_and_by_several_are_listed():
    assert counted_by_ranks([[0, 2], [3, 3], [4, 4], [5, 7]], 8)[0] == [1, 6]
    assert counted_by_ranks([[0, 3], [4, 2], [3, 4], [5, 7]], 8) == ([1, 6], [3, 4])


@pytest.mark.parametrize("files", [[8], [5, 3], [1, 1, 1, 5], [4, 4, 4]])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_dealing_is_a_partition_for_every_number_of_ranks(files, ranks):
    shares = deal(files, ranks)
    assert sorted(unit for share in shares for unit in share) == list(range(sum(files)))
    assert shares[0][0] == 0 and all(share == sorted(share) for share in shares)


def test_a_rank_reads_the_documents_and_batches_of_its_row_groups():
    stream = whole_stream(np.arange(1, 11), np.array([2, 1, 3, 2, 2]))
    first, second = rank_streams(stream, np.array([3, 3, 4]), [[0, 2], [1]])
    assert first.documents.tolist() == [0, 1, 2, 6, 7, 8, 9] and first.refill.tolist() == [2, 1, 2, 2]
    assert second.lengths.tolist() == [4, 5, 6] and second.refill.tolist() == [3]
    with pytest.raises(InputError, match="crosses the end of a row group"):
        rank_streams(stream, np.array([4, 6]), [[0], [1]])
    with pytest.raises(InputError, match="rank 1 of 2 is dealt none"):
        rank_streams(stream, np.array([3, 3, 4]), [[0, 1, 2], []])


def run(capsys, *arguments):
    """(exit code, printed text) of audit_stream."""
    code = audit_stream.main([str(argument) for argument in arguments])
    return code, capsys.readouterr().out


@pytest.fixture
def lengths(tmp_path):
    """A file of 2,000 lognormal lengths."""
    path = tmp_path / "lengths.npy"
    np.save(path, np.random.Generator(np.random.PCG64(5)).lognormal(3, 1.2, 2000).astype(np.int64) + 1)
    return path


def user(path, out, *more):
    return ["--lengths", path, "--capacity", 65, "--buffer-size", 50, "--refill", 16, "--strata", "16,65,128", "--out", out, *more]


def test_ranks_take_equal_rows_protect_apart_and_their_union_is_their_sum(capsys, tmp_path, lengths):
    code, printed = run(capsys, *user(lengths, tmp_path / "out", "--passes", 2, "--ranks", 4))
    record = read_json(tmp_path / "out/audit.json")["training"]["baseline"]
    assert code == 0 and "taken over 4 ranks" in printed.splitlines()[0]
    assert len({part["rows"] for part in record["ranks"]}) == 1 and min(record["rows_left"]) == 0 < max(record["rows_left"])
    for name in ("arrived", "emitted", "discarded", "buffered"):
        assert record["tokens"][name] == sum(part["tokens"][name] for part in record["ranks"])
    assert record["protected"]["documents"] == 4 * 49 and record["protected"]["started"] == 0
    assert record["dealing"]["units_of_no_rank"] == record["dealing"]["units_of_several_ranks"] == []
    assert record["dealing"]["documents_started_by_none"] == 2000 - record["documents"]["distinct_started"]


def test_a_faulty_dealing_is_reported_unit_by_unit(capsys, tmp_path, lengths):
    write_json(tmp_path / "deal.json", [[0, 3], [4, 2], [3, 4], [5, 7]])
    np.save(tmp_path / "groups.npy", np.full(8, 250))
    more = ["--rows", 800, "--deal", tmp_path / "deal.json", "--row-groups", tmp_path / "groups.npy"]
    code, _ = run(capsys, *user(lengths, tmp_path / "out", *more))
    dealing = read_json(tmp_path / "out/audit.json")["training"]["baseline"]["dealing"]
    assert code == 0 and dealing["units_of_no_rank"] == [1, 6] and dealing["units_of_several_ranks"] == [3, 4]
    assert dealing["documents_started_by_several"] > 0


def test_passes_stop_before_anything_of_the_next_pass_arrives(capsys, tmp_path, lengths):
    for passes in (1, 3):
        run(capsys, *user(lengths, tmp_path / "out", "--passes", passes))
        record = read_json(tmp_path / "out/audit.json")["training"]["baseline"]
        assert (passes - 1) * 2000 < record["documents"]["arrived"] <= passes * 2000
        run(capsys, *user(lengths, tmp_path / "more", "--rows", record["rows"] + 1))
        assert read_json(tmp_path / "more/audit.json")["training"]["baseline"]["documents"]["arrived"] > passes * 2000 - 16


def test_parquet_json_lines_and_lengths_of_one_corpus_give_equal_numbers(capsys, tmp_path):
    _, data, _ = audited_study.build(tmp_path)
    shards = audited_study.texts_of("train")
    texts = [text for groups in shards.values() for group in groups for text in group]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    common = ["--capacity", 33, "--buffer-size", 9, "--rows", 40, "--strata", "16,33"]
    tokenizer, refill = ["--tokenizer", data / "tiny/tokenizer"], ["--refill", data / "tiny/train/refill.npy"]
    sources = {
        "lengths": ["--lengths", data / "tiny/train/lengths.npy", *refill],
        "parquet": ["--parquet", data / "tiny/corpus/train_*.parquet", *tokenizer, "--refill", 8],
        "json": ["--jsonl", tmp_path / "corpus.jsonl", *tokenizer, *refill],
    }
    for name, source in sources.items():
        assert run(capsys, *source, *common, "--out", tmp_path / name)[0] == 0
    records = [read_json(tmp_path / name / "audit.json")["training"]["baseline"] for name in sources]
    assert records[0] == records[1] == records[2]


def fake_runs(evidence, runs):
    """A result.json for each run of the study with the digests that the audit derived."""
    for condition, record in evidence["training"].items():
        digests = {"plan": record["plan_sha256"], "rows": record["rows_sha256"],
                   "evaluation_plan": evidence["evaluation"]["plan_sha256"]}
        write_json(runs / f"tiny/{condition}_s43/result.json", {"digests": digests})


def test_a_study_is_compared_with_its_runs_and_its_frozen_evidence(capsys, tmp_path, monkeypatch):
    protocol, data, runs = audited_study.build(tmp_path)
    monkeypatch.setattr(audit_stream, "HERE", tmp_path / "frozen")
    arguments = ["--study", protocol, "--data", data, "--runs", runs]
    code, printed = run(capsys, *arguments, "--freeze")
    assert code == 0 and printed.startswith("baseline: the 8 longest of ") and "were never started." in printed
    frozen = read_json(tmp_path / "frozen/tiny.json")
    fake_runs(frozen, runs)
    figures = {path.name: path.read_bytes() for path in (runs / "tiny/audit").glob("*.png")}
    code, printed = run(capsys, *arguments)
    assert code == 0 and "equals the frozen evidence" in printed and printed.count("rows and plans equal") == 3
    assert len(figures) == 4 and figures == {path.name: path.read_bytes() for path in (runs / "tiny/audit").glob("*.png")}
    result = read_json(runs / "tiny/baseline_s43/result.json")
    write_json(runs / "tiny/baseline_s43/result.json", {"digests": result["digests"] | {"rows": "0" * 64}})
    code, printed = run(capsys, *arguments)
    assert code == 1 and "FALSE baseline_s43: its rows is not what the audit derives" in printed
    fake_runs(frozen, runs)
    frozen["training"]["baseline"]["tokens"]["discarded"] += 1
    write_json(tmp_path / "frozen/tiny.json", frozen)
    code, printed = run(capsys, *arguments)
    assert code == 1 and "tiny.json: differs at $.training.baseline.tokens.discarded" in printed


def test_one_changed_token_changes_the_rows_digest_only(capsys, tmp_path, monkeypatch):
    protocol, data, runs = audited_study.build(tmp_path)
    monkeypatch.setattr(audit_stream, "HERE", tmp_path / "frozen")
    arguments = ["--study", protocol, "--data", data, "--runs", runs]
    run(capsys, *arguments)
    before = read_json(runs / "tiny/audit/audit.json")
    fake_runs(before, runs)
    tokens = np.load(data / "tiny/train/tokens.npy")
    np.save(data / "tiny/train/tokens.npy", tokens ^ 1)
    code, printed = run(capsys, *arguments)
    assert code == 1 and printed.count("its rows is not what the audit derives") == 3 and "its plan is not" not in printed


def test_a_plan_that_reads_past_a_document_or_one_not_yet_there_is_found_out():
    _, plan, stream, packing = audited("baseline", CASE_1B, [1] * 11, 11, 4, 4)
    for column, change, message in ((START, 30, "beyond its document"), (ARRIVAL, 11, "before it arrives"), (COUNT, -1, "row")):
        broken = plan.copy()
        broken[0, column] += change
        with pytest.raises(Unbalanced, match=message):
            audit(broken, stream, packing, EDGES, stream.lengths, 4)


def test_a_protected_document_that_has_started_ends_with_exit_code_1(capsys, tmp_path, lengths, monkeypatch):
    """Cutting documents first breaks the proposition's hypotheses: claimed for it, it must be seen to fail."""
    assert run(capsys, *user(lengths, tmp_path / "out", "--policy", "segmented"))[0] == 0
    monkeypatch.setattr(streams, "RETAINING", {"segment_first"})
    code, printed = run(capsys, *user(lengths, tmp_path / "out", "--policy", "segmented"))
    assert code == 1 and "of the longest documents have started" in printed and "the proposition fails" in printed


@pytest.mark.parametrize("values, message", [
    (np.array([3, 0, 2]), r"lengths\[1\]: expected 1\.\."), (np.array([3, -4]), r"lengths\[1\].*found -4"),
    (np.array([3.0, 2.0]), "expected integers, found float64"), (np.array([3, np.nan]), "expected integers, found float64"),
    (np.array([], np.int64), "at least one positive integer"), (np.array([2**31]), r"lengths\[0\].*found 2147483648"),
    (np.array([[3]]), "shape"), (np.array([{}], dtype=object), "not a .npy file of plain numbers"),
])
def test_hostile_lengths_are_refused_by_name(tmp_path, values, message):
    np.save(tmp_path / "bad.npy", values, allow_pickle=True)
    with pytest.raises(InputError, match=message):
        read_counts(tmp_path / "bad.npy", "lengths")


@pytest.mark.parametrize("arguments, message", [
    (["--lengths", "none.npy"], "none.npy"), (["--parquet", "none/*.parquet", "--tokenizer", "none"], "no file matches"),
    (["--lengths", "LENGTHS", "--refill", "x.npy"], "x.npy"), (["--study", "nothing"], "no such protocol"),
    (["--lengths", "LENGTHS", "--buffer-size", 10**6], "they fill no row"), (["--lengths", "LENGTHS", "--ranks", 999], "is dealt none"),
])
def test_a_users_mistake_exits_2_and_names_the_cause(tmp_path, lengths, arguments, message, monkeypatch, capsys):
    arguments = [str(lengths) if argument == "LENGTHS" else str(argument) for argument in arguments]
    monkeypatch.setattr("sys.argv", ["audit_stream.py", *arguments, "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(audited_study.SCRIPTS / "audit_stream.py"), run_name="__main__")
    assert ended.value.code == 2 and message in capsys.readouterr().err
