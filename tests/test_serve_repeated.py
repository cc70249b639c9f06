"""A repeated corpus is replayed exactly: first services, discards and states are those of the reference packer."""

from pathlib import Path

import numpy as np
import pytest

from evidence import InputError, read_json, write_json
from loaders import best_fit_crop, lossless
from loaders.accounting import ARRIVAL, COUNT
from loaders.ledger import ledger, protected
from research.source_exclusion import replay, serve_repeated, service
from research.source_exclusion.account import Unbalanced
from research.source_exclusion.reference_service import ReferenceReplay
from research.source_exclusion.streams import make_packing, whole_stream
from tiny.corpus import list_prepared

ROOT = Path(__file__).resolve().parents[1]

LOADERS = {"baseline": best_fit_crop, "lossless": lossless}


def setting(lengths, refill, capacity, buffer_size, policy):
    """(Stream, Packing) of a small world."""
    stream = whole_stream(np.array(lengths, np.int64), np.array(refill, np.int64))
    return stream, make_packing(LOADERS[policy].__name__.split(".")[1], capacity, buffer_size, 0)


def small_worlds(count):
    """Seeded (lengths, refill, capacity, buffer_size): short corpora, many of them with documents of equal length."""
    random = np.random.Generator(np.random.PCG64(11))
    for _ in range(count):
        documents, batch = int(random.integers(1, 12)), int(random.integers(1, 6))
        lengths = random.integers(1, int(random.choice([4, 12, 40])), documents).tolist()
        sizes = np.diff([*range(0, documents, batch), documents]).tolist()
        yield lengths, sizes, int(random.integers(2, 9)), int(random.integers(1, 15))


def reference_replay(world, passes, policy):
    """(ReferenceReplay after `passes` passes, what each pass ended with: [emitted, discarded, buffered] and state)."""
    lengths, refill, capacity, buffer_size = world
    replayed, ends = ReferenceReplay(np.array(lengths), np.array(refill), capacity, buffer_size, policy), []
    for _ in range(passes):
        replayed.one_pass()
        ends.append(([replayed.emitted, replayed.discarded, replayed.buffered()[0]], replayed.packer.state()))
    return replayed, ends


def first_repeat(states):
    """(pass, earlier pass with the same state), counted from 1; None when all differ."""
    return next(((now, then) for now in range(1, len(states) + 1) for then in range(1, now)
                 if states[now - 1] == states[then - 1]), None)


@pytest.mark.parametrize("policy", LOADERS)
def test_replay_equals_the_reference_packer(policy):
    for world in small_worlds(60):
        slow, ends = reference_replay(world, 40, policy)
        stream, packing = setting(*world, policy)
        edges = service.class_edges(stream.lengths, packing.capacity)
        account, table, states = service.follow_passes(stream, packing, edges, 40)
        assert table[:, :3].tolist() == [totals for totals, _ in ends], world
        assert (account.first.tolist(), account.starts.tolist()) == (slow.first, slow.started), world
        steady = service.steady_record(states, service.pass_records(table, edges))["state_repeats"]
        found = steady and (steady["pass"], steady["equals_pass"])
        assert found == first_repeat([state for _, state in ends]), world


@pytest.mark.parametrize("policy", LOADERS)
def test_first_service_is_in_the_refill_of_the_bound(policy):
    begun = 0
    for lengths, refill, capacity, buffer_size in small_worlds(60):
        slow, _ = reference_replay((lengths, refill, capacity, buffer_size), 40, policy)
        bound = service.bounds(np.array(lengths), np.array(refill), capacity, buffer_size)
        assert list(bound) == sorted({length for length in lengths if length > capacity}, reverse=True)
        for length, (documents, earliest, refilled) in bound.items():
            chosen = [document for document, other in enumerate(lengths) if other >= length]
            arrivals = [a for a in range(buffer_size * len(lengths)) if a % len(lengths) in chosen]
            assert (documents, earliest) == (len(chosen), arrivals[buffer_size - 1] + 1)
            assert -(-earliest // len(lengths)) == -(-buffer_size // documents)
            served = [slow.first[document] for document in chosen if slow.first[document]]
            assert (min(served) if served else None) == (refilled if refilled <= 40 * len(lengths) else None)
            assert earliest <= refilled
            begun += bool(served)
    assert begun > 50


def test_three_documents_by_hand():
    """Lengths 9, 2, 3; rows of 4, buffer of 3, one batch. Pass 1 places the 3. Pass 2 crops a 2, places the 3 and
    crops a 2, and two 9 wait. Pass 3 places the 3, crops the 2, and of three 9 crops the first: pass ceil(3 / 1)."""
    stream, packing = setting([9, 2, 3], [3], 4, 3, "baseline")
    evidence, records, false, _ = serve_repeated.measure(stream, packing, 4, 1)
    assert [(r["emitted"], r["discarded"], r["buffered"]) for r in records] == [
        (3, 0, 11), (5, 2, 18), (8, 6, 18), (8, 6, 18)]
    moment = {"pass": 3, "arrived": 9}
    assert evidence["longest"] == [{"document": 0, "length": 9, "bound": {"pass": 3, "arrived": 7},
                                    "first_begun": moment, "services": 2}]
    assert evidence["steady"]["state_repeats"] == {"pass": 3, "equals_pass": 2, "period": 1}
    assert evidence["steady"]["waiting_unchanged_from_pass"] == 2
    assert [(c["from"], c["documents"], c["services"], c["all_begun"]) for c in evidence["classes"]] == [
        (1, 3, 10, moment), (5, 1, 2, moment), (8, 1, 2, moment), (9, 1, 2, moment)]
    assert false == []


@pytest.mark.parametrize("policy", LOADERS)
def test_totals_equal_the_ledger_of_the_whole_plan(policy):
    lengths = np.maximum(np.random.default_rng(3).lognormal(3, 1.5, 300), 1).astype(np.int64)
    refill = np.diff([*range(0, 300, 7), 300])
    stream, packing = setting(lengths, refill, 33, 20, policy)
    sizes = {"capacity": 33, "buffer_size": 20}
    plan = packing.loader.plan(lengths, rows=1500, refill=refill, **sizes)
    account = replay.Replay(stream, packing, [34])
    passes = [account.passes for _ in account.follow(plan)]
    totals, expected = account.totals(), ledger(plan, lengths, refill, loader=packing.loader, **sizes)
    keys = protected(lengths, expected["documents"]["arrived"], **sizes)
    assert len(passes) > 1 and not np.isin(keys, plan[:, ARRIVAL]).any()
    assert totals["tokens"] == {key: expected["tokens"][key] for key in totals["tokens"]}
    assert totals["documents"] == {key: expected["documents"][key] for key in totals["documents"]}
    kept = int(lengths[keys % 300].sum())
    assert totals["protected"] == {"documents": len(keys), "tokens": kept, "started": 0}


@pytest.mark.parametrize("policy", LOADERS)
def test_totals_beyond_two_to_the_31_are_right(policy):
    world = [2**31 - 1, 2**31 - 2, 5, 2**31 - 1, 2**30], [2, 3], 2**20, 4
    _, ends = reference_replay(world, 12, policy)
    stream, packing = setting(*world, policy)
    _, table, _ = service.follow_passes(stream, packing, [world[2] + 1], 12)
    assert table[:, :3].tolist() == [totals for totals, _ in ends]
    assert max(ends[-1][0]) > 2**36


@pytest.mark.parametrize("policy", LOADERS)
@pytest.mark.parametrize("column", range(1, 5))
def test_a_changed_segment_is_noticed(policy, column):
    lengths = np.arange(1, 60)
    stream, packing = setting(lengths, [59], 16, 9, policy)
    plan = packing.loader.plan(lengths, capacity=16, rows=40, buffer_size=9, refill=np.array([59]))
    for segment in range(0, len(plan), 9):
        changed = plan.copy()
        changed[segment, column] += 1
        if column == COUNT and policy == "baseline" and plan[segment, COUNT] < plan[segment, ARRIVAL] % 59:
            continue  # a longer slice of a cropped document is as good a segment
        with pytest.raises(Unbalanced):
            account = replay.Replay(stream, packing, [17])
            list(account.follow(changed))
            account.totals()


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Arguments for a small prepared study whose frozen evidence lies in tmp_path."""
    protocol = read_json(ROOT / "protocols/demo.json")
    protocol["study"] = "small"
    protocol["packing"] |= {"context": 7, "buffer_size": 6}
    protocol["evaluation"]["targets"] = 70
    write_json(tmp_path / "small.json", protocol)
    train = tmp_path / "data/small/train"
    train.mkdir(parents=True)
    np.save(train / "lengths.npy", np.random.default_rng(5).integers(1, 30, 40))
    np.save(train / "refill.npy", np.array([16, 16, 8]))
    list_prepared(train.parent)
    monkeypatch.setattr(serve_repeated, "HERE", tmp_path)
    return ["--study", str(tmp_path / "small.json"), "--data", str(tmp_path / "data"), "--runs", str(tmp_path / "runs")]


@pytest.mark.parametrize("policy", LOADERS)
def test_a_study_is_replayed_frozen_and_compared(study, tmp_path, policy, capsys):
    study += ["--policy", policy]
    assert serve_repeated.main([*study, "--longest", "3", "--freeze"]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    name = {"baseline": "served_small.json", "lossless": "served_small_lossless.json"}[policy]
    frozen = read_json(tmp_path / name)
    longest = frozen["longest"][0]
    start, bound = longest["first_begun"]["pass"], longest["bound"]["pass"]
    assert start >= bound and f"pass {start} (earliest possible: {bound})" in first
    lengths = len(np.unique(np.load(tmp_path / "data/small/train/lengths.npy").clip(8))) - 1
    assert second.startswith(f"For {lengths} of {lengths} different lengths")
    assert first.startswith(f"small, {policy}: repeating 40 documents, the longest ({longest['length']} tokens)")
    out = tmp_path / "runs/small/audit" / name.replace("_small", "")
    assert (out.read_bytes(), frozen["study"]) == ((tmp_path / name).read_bytes(), "small")
    assert out.with_suffix(".png").stat().st_size > 5000
    assert len(out.with_suffix(".csv").read_text().splitlines()) == frozen["replayed"] + 1
    frozen["passes"][-1]["discarded"] += 1
    write_json(tmp_path / name, frozen)
    assert serve_repeated.main([*study, "--longest", "3"]) == 1
    assert f"passes[{len(frozen['passes']) - 1}].discarded" in capsys.readouterr().out
    assert serve_repeated.main(study) == 0  # another list of documents: not compared


def test_a_planner_with_a_smaller_buffer_breaks_the_bound(study, monkeypatch, capsys):
    def smaller(lengths, refill, capacity, rows, buffer_size, continues):
        return honest(lengths, refill, capacity, rows, buffer_size - 3, continues)

    honest = best_fit_crop.blocks
    monkeypatch.setattr(best_fit_crop, "blocks", smaller)
    assert serve_repeated.main(study) == 1
    assert "FAIL" in capsys.readouterr().out


def test_an_early_or_late_first_service_is_named():
    bound = {50: (1, 21, 24), 40: (2, 11, 12), 30: (3, 7, 8)}
    assert service.broken_bounds(bound, {50: None, 40: 12, 30: 8}, 20) == []
    early, late = service.broken_bounds(bound, {50: 20, 40: None, 30: 8}, 24)
    assert all(number in early for number in ("50", "20", "24")) and "40" in late


def test_lengths_of_a_user_without_long_documents(tmp_path, capsys):
    np.save(tmp_path / "lengths.npy", np.arange(1, 50))
    sizes = "--refill 9 --buffer-size 5 --capacity 64 --passes 6".split()
    files = ["--lengths", str(tmp_path / "lengths.npy"), "--out", str(tmp_path / "out/served.json")]
    assert serve_repeated.main([*files, *sizes]) == 0
    assert "none is longer than a row" in capsys.readouterr().out.splitlines()[0]
    found = read_json(tmp_path / "out/served.json")
    assert (found["longest"], found["study"], found["classes"][0]["services"]) == ([], None, 6 * 49 - 4)
    assert not (tmp_path / "out/served.png").exists()


def test_hostile_arguments_are_refused_by_name(tmp_path, study):
    np.save(tmp_path / "zero.npy", np.array([3, 0, 2]))
    with pytest.raises(InputError, match="zero.npy: entry 1"):
        serve_repeated.main(["--lengths", str(tmp_path / "zero.npy"), "--out", str(tmp_path / "x.json")])
    for arguments in ([*study, "--passes", "0"], ["--lengths", str(tmp_path / "zero.npy")]):
        with pytest.raises(SystemExit):
            serve_repeated.main(arguments)
    (tmp_path / "data/small/prepared.json").unlink()
    with pytest.raises(InputError, match="prepared.json: missing; run"):
        serve_repeated.main(study)
