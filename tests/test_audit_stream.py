"""The audit reads every source alike, deals to ranks as a partition, and ends with 1 when a run or a claim is false.

Cases 5, 9B (whole steps for all ranks) and hostile inputs of cases that tools of this kind got wrong.
"""

import csv
import json
import runpy
import subprocess
import sys

import numpy as np
import pytest

import surroundings
from corpora import tokens
from evidence import InputError, read_json, write_json
from loaders.ledger import ledger
from research.source_exclusion import audit_inputs, audit_parts, audit_stream, audit_texts, streams
from research.source_exclusion.streams import counted_by_ranks, deal, rank_streams, whole_stream
from tiny import audited as audited_study
from tiny.corpus import list_prepared, texts_of


def test_case_5_files_read_by_no_rank_and_by_several_are_listed():
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
    """Arguments for an audit of the file `path` into the folder `out`."""
    return ["--lengths", path, "--capacity", 65, "--buffer-size", 50, "--refill", 16, "--strata", "16,65,128",
            "--out", out, *more]


def test_ranks_take_equal_rows_protect_apart_and_their_union_is_their_sum(capsys, tmp_path, lengths):
    code, printed = run(capsys, *user(lengths, tmp_path / "out", "--passes", 2, "--ranks", 4))
    record = read_json(tmp_path / "out/audit.json")["training"]["baseline"]
    assert code == 0 and "each of 4 ranks, together 196," in printed.splitlines()[0]
    assert len({part["rows"] for part in record["ranks"]}) == 1
    assert min(record["rows_left"]) == 0 < max(record["rows_left"])
    for name in ("arrived", "emitted", "discarded", "buffered"):
        assert record["tokens"][name] == sum(part["tokens"][name] for part in record["ranks"])
    assert record["protected"]["documents"] == 4 * 49 and record["protected"]["started"] == 0
    assert record["dealing"]["units_of_no_rank"] == record["dealing"]["units_of_several_ranks"] == []
    assert record["dealing"]["documents_started_by_none"] == 2000 - record["documents"]["distinct_started"]


def test_a_dealing_of_one_rank_is_that_of_its_units_alone(capsys, tmp_path, lengths):
    write_json(tmp_path / "deal.json", [[3, 1]])
    np.save(tmp_path / "groups.npy", np.full(8, 250))
    code, printed = run(capsys, *user(lengths, tmp_path / "out", "--deal", tmp_path / "deal.json",
                                "--row-groups", tmp_path / "groups.npy"))
    record = read_json(tmp_path / "out/audit.json")["training"]["baseline"]
    expected = np.load(lengths).reshape(8, 250)[[3, 1]].sum()
    assert code == 1 and "FAIL baseline: 8 row groups" in printed
    assert record["documents"]["arrived"] == 500 and record["tokens"]["arrived"] == expected
    assert record["dealing"]["units_of_no_rank"] == [0, 2, 4, 5, 6, 7]


def test_a_faulty_dealing_is_reported_unit_by_unit(capsys, tmp_path, lengths):
    write_json(tmp_path / "deal.json", [[0, 3], [4, 2], [3, 4], [5, 7]])
    np.save(tmp_path / "groups.npy", np.full(8, 250))
    more = ["--rows", 800, "--deal", tmp_path / "deal.json", "--row-groups", tmp_path / "groups.npy"]
    code, printed = run(capsys, *user(lengths, tmp_path / "out", *more))
    last = printed.splitlines()[-5:]
    dealing = read_json(tmp_path / "out/audit.json")["training"]["baseline"]["dealing"]
    assert code == 1
    assert any("FAIL" in line and "(1, 6) to no rank" in line and "(3, 4) to several" in line for line in last)
    assert dealing["units_of_no_rank"] == [1, 6] and dealing["units_of_several_ranks"] == [3, 4]
    assert dealing["documents_started_by_several"] > 0


def test_passes_stop_before_anything_of_the_next_pass_arrives(capsys, tmp_path, lengths):
    for passes in (1, 3):
        run(capsys, *user(lengths, tmp_path / "out", "--passes", passes))
        record = read_json(tmp_path / "out/audit.json")["training"]["baseline"]
        assert (passes - 1) * 2000 < record["documents"]["arrived"] <= passes * 2000
        run(capsys, *user(lengths, tmp_path / "more", "--rows", record["rows"] + 1))
        longer = read_json(tmp_path / "more/audit.json")["training"]["baseline"]
        assert longer["documents"]["arrived"] > passes * 2000


def test_parquet_json_lines_and_lengths_of_one_corpus_give_equal_numbers(capsys, tmp_path):
    _, data, _ = audited_study.build(tmp_path)
    shards = texts_of("train")
    texts = [text for groups in shards.values() for group in groups for text in group]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (tmp_path / "corpus.jsonl").write_text(lines, encoding="utf-8")
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
    assert code == 0 and "The 8 longest documents" in printed and "were not started" in printed
    frozen = read_json(tmp_path / "frozen/tiny.json")
    fake_runs(frozen, runs)
    figures = {path.name: path.read_bytes() for path in (runs / "tiny/audit").glob("*.png")}
    code, printed = run(capsys, *arguments)
    assert code == 0 and "equals the frozen evidence" in printed
    assert printed.count("its rows and plans are those that the audit derives") == 3
    assert len(figures) == 4
    assert figures == {path.name: path.read_bytes() for path in (runs / "tiny/audit").glob("*.png")}
    result = read_json(runs / "tiny/baseline_s43/result.json")
    write_json(runs / "tiny/baseline_s43/result.json", {"digests": result["digests"] | {"rows": "0" * 64}})
    code, printed = run(capsys, *arguments)
    assert code == 1 and "FAIL baseline_s43: its rows differ" in printed
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
    facts = read_json(data / "tiny/prepared.json")
    list_prepared(data / "tiny", corpus=facts["corpus"])
    code, printed = run(capsys, *arguments)
    assert code == 1 and printed.count("its rows differ from what the audit derives") == 3


def test_a_protected_document_that_has_started_ends_with_exit_code_1(capsys, tmp_path, lengths, monkeypatch):
    """Cutting documents first breaks the proposition's hypotheses: claimed for it, it must be seen to fail."""
    assert run(capsys, *user(lengths, tmp_path / "out", "--policy", "segmented"))[0] == 0
    monkeypatch.setattr(streams, "RETAINING", {"segment_first"})
    code, printed = run(capsys, *user(lengths, tmp_path / "out", "--policy", "segmented"))
    assert code == 1 and "FAIL segmented: " in printed and "The proposition fails" in printed


HOSTILE = [(np.array([3, 0, 2]), "entry 1"), (np.array([3, -4]), "-4"), (np.array([3.0, 2.0]), "float64"),
           (np.array([3, np.nan]), "float64"), (np.array([], np.int64), "at least one"),
           (np.array([2**31]), "2147483648"), (np.array([[3]]), "shape"), (np.array([{}], dtype=object), ".npy")]


def ended(monkeypatch, capsys, *arguments):
    """(exit code, text on stderr) of the script as a user runs it."""
    monkeypatch.setattr("sys.argv", ["audit_stream.py", *map(str, arguments)])
    with pytest.raises(SystemExit) as exit_of:
        runpy.run_path(str(audited_study.SCRIPTS / "audit_stream.py"), run_name="__main__")
    return exit_of.value.code, capsys.readouterr().err


def test_a_protocol_with_a_wrong_value_is_refused_by_key(tmp_path, monkeypatch, capsys):
    protocol, data, runs = audited_study.build(tmp_path)
    changed = json.loads(protocol.read_bytes())
    changed["training"]["microbatch"] = None
    write_json(protocol, changed)
    code, said = ended(monkeypatch, capsys, "--study", protocol, "--data", data, "--runs", runs)
    assert code == 2 and "training.microbatch: expected" in said and "found None" in said


def test_parquet_files_without_a_document_are_refused(tmp_path, monkeypatch, capsys):
    import pyarrow as pa
    import pyarrow.parquet as pq

    tokenizer = audited_study.build(tmp_path)[1] / "tiny/tokenizer"
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "none.parquet")
    code, said = ended(monkeypatch, capsys, "--parquet", tmp_path / "none.parquet", "--tokenizer", tokenizer,
                       "--out", tmp_path / "out")
    assert code == 2 and "--parquet" in said and "no documents" in said


@pytest.mark.parametrize("values, message", HOSTILE)
def test_hostile_lengths_are_refused_by_name(tmp_path, values, message, monkeypatch, capsys):
    np.save(tmp_path / "bad.npy", values, allow_pickle=True)
    code, said = ended(monkeypatch, capsys, "--lengths", tmp_path / "bad.npy", "--out", tmp_path / "out")
    assert code == 2 and "bad.npy: " in said and message in said and not (tmp_path / "out").exists()


@pytest.mark.parametrize("option, count", [("--passes", 10**9), ("--targets", 10**15), ("--rows", 10**13)])
@pytest.mark.parametrize("ranks", [1, 8])
def test_a_horizon_beyond_memory_is_refused_before_it_is_planned(option, count, ranks, tmp_path, lengths, monkeypatch):
    monkeypatch.setattr(streams.Packing, "blocks", lambda *_: pytest.fail("planned"))
    with pytest.raises(InputError, match=f"{option} {count}: about .* segments .* GiB of memory"):
        run(None, *user(lengths, tmp_path / "out", option, count, "--ranks", ranks))


@pytest.mark.parametrize("option, count", [("--passes", 4), ("--targets", 30_000), ("--rows", 600)])
def test_a_horizon_is_refused_from_the_memory_on_that_its_segments_take(option, count, tmp_path, capsys, monkeypatch):
    """Worked by hand: 600 documents, of 5 and of 20 tokens in turn, and 12.5 tokens a segment."""
    np.save(tmp_path / "two.npy", np.tile([5, 20], 300))
    tokens = {"--passes": 4 * 7500, "--targets": 30_000, "--rows": 600 * 65}[option]
    arguments = user(tmp_path / "two.npy", tmp_path / "out", option, count)
    needed = tokens * 2 // 25 * audit_inputs.SEGMENT_BYTES + 600 * audit_inputs.DOCUMENT_BYTES
    monkeypatch.setattr(surroundings, "memory", lambda: surroundings.Limit(needed, "the test"))
    assert run(capsys, *arguments)[0] == 0
    monkeypatch.setattr(surroundings, "memory", lambda: surroundings.Limit(needed - 1, "the test"))
    with pytest.raises(InputError, match=f"{option} {count}: about {tokens * 2 // 25:,} segments"):
        run(capsys, *arguments)


PEAK = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from research.source_exclusion import audit_inputs
from research.source_exclusion.audit_records import audited, stream_record
from research.source_exclusion.streams import POLICIES, make_packing, whole_stream
documents = int(sys.argv[3])
stream = whole_stream(np.tile(np.arange(1, 1001), documents // 1000), np.full(documents // 125, 125))
packing = make_packing(POLICIES[sys.argv[2]][0], 2049, 100, 1)
rows = int(stream.lengths.sum()) // 2200
record = stream_record(audited(stream, packing, [100, 2049], rows), stream.lengths, [100, 2049])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, record["selections"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["baseline", "random_crop"])
def test_the_memory_of_an_audit_grows_by_no_more_than_the_guard_counts(policy):
    peaks = []
    for documents in (1_000_000, 4_000_000):
        command = [sys.executable, "-c", PEAK, str(audited_study.ROOT), policy, str(documents)]
        peaks.append([int(word) for word in subprocess.check_output(command, text=True).split()])
    (small, few), (large, many) = peaks
    allowed = 3_000_000 * audit_inputs.DOCUMENT_BYTES + (many - few) * audit_inputs.SEGMENT_BYTES
    assert many > few + 2_000_000 and large - small < allowed


@pytest.mark.parametrize("arguments, message", [
    (["--lengths", "none.npy"], "none.npy"),
    (["--parquet", "none/*.parquet", "--tokenizer", "none"], "--tokenizer"),
    (["--lengths", "LENGTHS", "--refill", "x.npy"], "x.npy"), (["--study", "nothing"], "no such protocol"),
    (["--lengths", "LENGTHS", "--buffer-size", 10**6], "--buffer-size"),
    (["--lengths", "LENGTHS", "--ranks", 999], "is dealt none"),
    (["--lengths", "LENGTHS", "--deal", "EMPTY"], "rank 0 of 1 is dealt none"),
    (["--lengths", "LENGTHS", "--deal", "EMPTY", "--ranks", 2], "not allowed with"),
    (["--lengths", "LENGTHS", "--targets", 10**23], "below 2**62"),
    (["--study", "demo", "--ranks", 2], "--ranks is for your own data"),
])
def test_a_users_mistake_exits_2_and_names_the_cause(tmp_path, lengths, arguments, message, monkeypatch, capsys):
    write_json(tmp_path / "deal.json", [[]])
    files = {"LENGTHS": lengths, "EMPTY": tmp_path / "deal.json"}
    arguments = [files.get(argument, argument) for argument in arguments]
    arguments += [] if "--study" in arguments else ["--out", tmp_path]
    code, said = ended(monkeypatch, capsys, *arguments)
    assert code == 2 and message in said


def test_whole_passes_of_a_study_are_audited_under_every_policy_and_compared_with_what_is_frozen(
        capsys, tmp_path, monkeypatch):
    protocol, data, runs = audited_study.build(tmp_path)
    monkeypatch.setattr(audit_stream, "HERE", tmp_path / "frozen")
    arguments = ["--study", protocol, "--data", data, "--runs", runs, "--repeated"]
    code, printed = run(capsys, *arguments, "--freeze")
    result = read_json(runs / "tiny/audit/repeated.json")
    assert code == 0 and result == read_json(tmp_path / "frozen/repeated_tiny.json")
    assert list(result["training"]) == sorted(read_json(protocol)["audit"]["repeated"]["policies"])
    assert result["capacity"] == 25
    assert all(2 * 101 < record["documents"]["arrived"] <= 3 * 101 for record in result["training"].values())
    assert {path.name for path in (runs / "tiny/audit").iterdir()} == {"repeated.json", *(
        f"repeated_{name}.png" for name in ("exposure", "started_by_length", "token_fates", "usable_buffer")), *(
        f"repeated_not_started_{policy}.csv" for policy in result["training"])}
    changed = json.loads(protocol.read_bytes())
    changed["audit"]["repeated"]["passes"] = 2
    write_json(protocol, changed)
    code, printed = run(capsys, *arguments)
    assert code == 1 and "repeated_tiny.json: differs at $.inputs[2].sha256" in printed


def test_a_policy_that_does_not_exist_is_refused_by_name(tmp_path, monkeypatch, capsys):
    protocol, data, runs = audited_study.build(tmp_path)
    changed = json.loads(protocol.read_bytes())
    changed["audit"]["repeated"]["policies"].append("newest_first")
    write_json(protocol, changed)
    arguments = ["--study", protocol, "--data", data, "--runs", runs, "--repeated"]
    code, said = ended(monkeypatch, capsys, *arguments)
    assert code == 2 and "audit.repeated.policies: expected" in said and "found 'newest_first'" in said


@pytest.mark.parametrize("loader", ["concatenated", "padded"])
def test_a_loader_whose_rows_share_tokens_or_are_padded_is_refused_by_name(loader):
    with pytest.raises(InputError, match=f"loaders/{loader}.py: .* not audited here"):
        streams.make_packing(loader, 33, 9, 1)


def listed(path):
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_the_documents_that_were_not_started_are_listed_with_what_they_waited(capsys, tmp_path):
    """Worked by hand: rows of 4, a buffer of 2, batches of one. The 9 never fits and is never the shortest."""
    np.save(tmp_path / "lengths.npy", np.array([9, 4, 4, 4, 4, 2]))
    code, printed = run(capsys, "--lengths", tmp_path / "lengths.npy", "--capacity", 4, "--buffer-size", 2,
                        "--refill", 1, "--rows", 3, "--strata", "4", "--out", tmp_path / "out")
    assert code == 0 and listed(tmp_path / "out/not_started_baseline.csv") == [
        {"document": "0", "name": "", "length": "9", "state": "longer_than_a_row", "arrivals": "1",
         "waited_documents": "3"}]
    assert "1 documents arrived and were not started" in printed.splitlines()[-3]


@pytest.mark.parametrize("policy", streams.POLICIES)
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_list_holds_exactly_the_documents_without_a_segment(policy, ranks, tmp_path, capsys, lengths):
    arguments = user(lengths, tmp_path / "out", "--policy", policy, "--rows", 300, "--ranks", ranks)
    assert run(capsys, *arguments)[0] == 0
    record = read_json(tmp_path / "out/audit.json")["training"][policy]["documents"]
    rows = listed(tmp_path / f"out/not_started_{policy}.csv")
    values = np.load(lengths)
    assert len(rows) == record["distinct_arrived"] - record["distinct_started"]
    assert all(int(row["length"]) == values[int(row["document"])] for row in rows)


def test_patterns_reach_any_depth_and_documents_are_named(capsys, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    tokenizer = audited_study.build(tmp_path)[1] / "tiny/tokenizer"
    for folder in ("a", "a/b", "a/b/c"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"text": ["word " * 9] * 20}), tmp_path / folder / "part.parquet")
    more = ["--tokenizer", tokenizer / "tokenizer.json", "--capacity", 33, "--buffer-size", 9, "--refill", 8]
    for number, names in enumerate(([tmp_path / "a/**/*.parquet"], [tmp_path / "a"],
                                    [tmp_path / "a/part.parquet", tmp_path / "a/b"])):
        assert run(capsys, "--parquet", *names, *more, "--out", tmp_path / f"out{number}")[0] == 0
        record = read_json(tmp_path / f"out{number}/audit.json")["training"]["baseline"]
        assert record["documents"]["corpus"] == 60
        assert listed(tmp_path / f"out{number}/not_started_baseline.csv")[0]["name"].startswith("part.parquet: row ")


def test_a_stream_of_short_documents_is_not_said_to_exclude_any(capsys, tmp_path):
    np.save(tmp_path / "short.npy", np.full(500, 10))
    code, printed = run(capsys, *user(tmp_path / "short.npy", tmp_path / "out"))
    first = printed.splitlines()[0]
    assert code == 0 and "as with any full buffer" in first
    assert all(word in first for word in ("emitted", "discarded", "still in the buffer"))


def test_lengths_may_be_a_text_file_and_a_bad_line_is_named(capsys, tmp_path, monkeypatch):
    (tmp_path / "lengths.txt").write_text("\n".join(["10"] * 300))
    assert run(capsys, *user(tmp_path / "lengths.txt", tmp_path / "out"))[0] == 0
    (tmp_path / "lengths.txt").write_text("10\n-3\n")
    code, said = ended(monkeypatch, capsys, *user(tmp_path / "lengths.txt", tmp_path / "out"))
    assert code == 2 and "lengths.txt: length 2" in said and "-3" in said


def test_a_users_matplotlibrc_does_not_reach_the_figures(tmp_path, lengths):
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\n")
    command = [sys.executable, audited_study.SCRIPTS / "audit_stream.py", *user(lengths, tmp_path / "out")]
    done = subprocess.run(list(map(str, command)), cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_account_of_a_study_equals_the_ledger_of_its_whole_plan(tmp_path, capsys, monkeypatch):
    protocol, data, runs = audited_study.build(tmp_path)

    def wrong(*arguments, **settings):
        found = ledger(*arguments, **settings)
        found["tokens"]["emitted"] += 1
        return found

    monkeypatch.setattr(audit_parts, "ledger", wrong)
    code, printed = run(capsys, "--study", protocol, "--data", data, "--runs", runs)
    assert code == 1 and "FAIL" in printed and "tokens.emitted" in printed


def test_a_rank_that_fills_no_row_is_named_with_its_documents_and_tokens(tmp_path, monkeypatch, capsys):
    np.save(tmp_path / "lengths.npy", np.concatenate([np.full(300, 40), np.full(60, 2)]))
    np.save(tmp_path / "groups.npy", np.array([300, 60]))
    arguments = user(tmp_path / "lengths.npy", tmp_path / "out", "--ranks", 2, "--row-groups", tmp_path / "groups.npy")
    code, said = ended(monkeypatch, capsys, *arguments)
    assert code == 2 and "rank 1 of 2 has 60 documents with 120 tokens" in said and "--passes" in said


def test_streams_of_ranks_are_made_in_time_that_grows_with_their_documents_alone():
    """Half a million units of one batch each; a pass over all batches for each unit would take hours."""
    units = np.full(500_000, 2)
    stream = whole_stream(np.arange(1, 1_000_001), units)
    first, second = rank_streams(stream, units, deal([len(units)], 2))
    assert first.documents[:4].tolist() == [0, 1, 4, 5] and second.documents[-2:].tolist() == [999_998, 999_999]
    assert np.array_equal(second.lengths, second.documents + 1) and second.refill.sum() == 500_000


def test_workers_are_as_many_as_the_process_may_use_and_change_no_number(monkeypatch, tmp_path, capsys):
    data, asked, honest = audited_study.build(tmp_path)[1], [], tokens.shared_out

    def shared_out(function, tasks, count):
        asked.append(count)
        return honest(function, tasks, count)

    monkeypatch.setattr(tokens, "shared_out", shared_out)
    monkeypatch.setattr(audit_texts, "TEXT_AT_ONCE", 1000)
    monkeypatch.setattr(surroundings, "cores", lambda: surroundings.Limit(1, "the test"))
    (tmp_path / "texts.jsonl").write_text('{"text": "some words here"}\n' * 200)
    more = ["--tokenizer", data / "tiny/tokenizer", "--capacity", 33, "--buffer-size", 9]
    for number, chosen in enumerate(([], ["--workers", 2])):
        out = tmp_path / f"out{number}"
        assert run(capsys, "--jsonl", tmp_path / "texts.jsonl", *more, *chosen, "--out", out)[0] == 0
    assert asked == [1, 2]
    assert read_json(tmp_path / "out0/audit.json") == read_json(tmp_path / "out1/audit.json")
    for row in listed(tmp_path / "out1/not_started_baseline.csv"):
        assert row["name"].endswith(f"texts.jsonl:{int(row['document']) + 1}")
