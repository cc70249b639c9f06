"""The account of an update equals what is counted in the batches a trainer would read, microbatch by microbatch."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.prepared import Prepared
from evidence import InputError, read_json, write_json
from loaders import batches, document_masked
from loaders.accounting import BOS, COUNT, ROW
from research.batch_boundaries import count_targets, layouts, throughput
from research.batch_boundaries.count_targets import LOADERS, Shape, account, update_record
from tiny import corpus as tiny_corpus


def counted(plan, shape, independent, fills):
    """[positions, non-padding, targets] of every microbatch, counted in real arrays of ids after the shift."""
    found = []
    for first in range(0, shape.rows, shape.microbatch):
        documents = [[np.arange(segment[BOS] + segment[COUNT]) for segment in plan.tolist() if segment[ROW] == row]
                     for row in range(first, first + shape.microbatch)]
        longest = max(2, *(sum(map(len, row)) for row in documents))
        width = shape.context + 1 if fills else longest
        positions = non_padding = targets = 0
        for row in documents:
            batch = layouts.pack_documents(row, width, pad=0, independent=independent)
            inputs, labels, _, segment_ids = batches.shifted(batch)
            assert len(inputs) == 1
            positions += inputs.size
            non_padding += int((segment_ids != batches.PADDING).sum())
            targets += int((labels != batches.IGNORED).sum())
        found.append([positions, non_padding, targets])
    return found


@given(st.sampled_from(LOADERS), st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(1, 3),
       st.integers(1, 3), st.integers(1, 9), st.integers(1, 3))
def test_the_account_is_what_is_counted_in_the_batches(name, lengths, ranks, microbatch, context, accumulation):
    loader, shape = importlib.import_module(f"loaders.{name}").LOADER, Shape(ranks, microbatch, context, accumulation)
    refill = np.array([len(lengths)])
    plan = loader.plan(np.array(lengths), capacity=context + 1, rows=shape.rows, buffer_size=3, refill=refill)
    record = count_targets.loader_record(loader, plan, shape)
    expected = counted(plan, shape, record["independent"], record["fills"])
    assert [list(line.values()) for line in record["microbatches"]] == expected
    for rank in range(ranks):
        dealt = [line for m, line in enumerate(expected) if m % ranks == rank]
        assert list(record["ranks"][rank].values()) == [sum(column) for column in zip(*dealt)]
    assert list(record["update"].values()) == [sum(column) for column in zip(*expected)]


def test_the_nominal_update_of_the_note_has_32768_positions_and_24576_targets(capsys):
    assert Shape().nominal() == {"positions": 32768, "share": "3/4", "targets": 24576}
    assert count_targets.main([]) == 0
    printed = capsys.readouterr().out
    assert "32,768" in printed and "24,576" in printed


def test_padding_and_independence_are_counted_on_a_worked_example():
    """Rows of 4 and 3 tokens padded (the note's documents), then one packed row of 7."""
    padded = account(np.array([4, 3]), np.array([3, 2]), Shape(1, 2, 6, 1), fills=False)
    assert padded.tolist() == [[6, 6, 5]]
    assert account(np.array([7]), np.array([5]), Shape(1, 1, 6, 1), fills=True).tolist() == [[6, 6, 5]]


def test_two_loaders_of_one_stream_differ_by_the_boundaries_alone():
    """document_masked has baseline's rows: the targets that it lacks are one for every further document of a row."""
    lengths, shape = np.random.default_rng(2).integers(1, 60, 400), Shape(2, 2, 32, 3)
    found = update_record(lengths, np.array([400]), shape, 20, LOADERS)["loaders"]
    plan = document_masked.plan(lengths, capacity=33, rows=shape.rows, buffer_size=20, refill=np.array([400]))
    assert found["best_fit_crop"]["row_targets"] == [32] * 12
    lacking = found["best_fit_crop"]["update"]["targets"] - found["document_masked"]["update"]["targets"]
    assert lacking == len(plan) - 12 > 0


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(1, 60))
def test_the_arrivals_kept_are_whole_refill_batches_and_no_more_than_needed(refill, documents):
    lengths = np.arange(1, sum(refill) + 1)
    kept, batches_ = count_targets.arrivals(lengths, np.array(refill), documents)
    assert kept.tolist() == (lengths.tolist() * 60)[: len(kept)] and len(kept) == batches_.sum()
    assert len(kept) - batches_[-1] < documents <= len(kept)
    assert batches_.tolist() == (refill * 60)[: len(batches_)]


@pytest.fixture
def data(tmp_path):
    """Lengths of a study, laid out as prepare.py does."""
    folder = tmp_path / "data/demo/train"
    folder.mkdir(parents=True)
    lengths = np.maximum(1, np.random.default_rng(4).lognormal(5, 1.4, 1500)).astype(np.int64)
    np.save(folder / "lengths.npy", lengths)
    np.save(folder / "refill.npy", np.array([100] * 15))
    tiny_corpus.list_prepared(folder.parent)
    return tmp_path


def test_a_studys_update_is_frozen_with_the_stream_it_follows_from(data, capsys):
    (data / "elsewhere").symlink_to(data / "data")
    for folder in ("data", "elsewhere"):
        assert count_targets.main(["--study", "demo", "--data", str(data / folder),
                                   "--json", str(data / "targets_demo.json")]) == 0
    frozen = read_json(data / "targets_demo.json")
    assert [entry["path"] for entry in frozen["inputs"]] == [f"data/demo/train/{name}.npy" for name in
                                                             ("lengths", "refill")]
    assert sorted(frozen["loaders"]) == sorted(LOADERS) and len(frozen["arrivals"]) == sum(frozen["refill"]) >= 1000
    assert frozen["loaders"]["best_fit_crop"]["update"] == {"positions": 32768, "non_padding": 32768, "targets": 32768}
    assert f"{frozen['loaders']['padded']['update']['targets']:,}" in capsys.readouterr().out


def test_without_json_nothing_is_written(data, monkeypatch):
    monkeypatch.chdir(data)
    before = sorted(data.rglob("*")), sorted(Path(count_targets.__file__).parent.iterdir())
    assert count_targets.main(["--study", "demo", "--data", str(data / "data")]) == 0
    assert count_targets.main(["--lengths", str(data / "data/demo/train/lengths.npy")]) == 0
    assert (sorted(data.rglob("*")), sorted(Path(count_targets.__file__).parent.iterdir())) == before


def test_an_empty_shape_and_missing_data_are_refused(tmp_path):
    for option, said in {"--ranks": "--ranks", "--context": "--context", "--buffer-size": "--buffer-size"}.items():
        with pytest.raises(InputError, match=said):
            count_targets.main([option, "0"])
    with pytest.raises(InputError, match="prepare.py --study demo"):
        count_targets.main(["--study", "demo", "--data", str(tmp_path)])


@pytest.mark.parametrize("loaders", [["padded"], ["concatenated"], ["padded", "concatenated"]])
def test_a_buffer_size_is_refused_where_no_loader_has_a_buffer(loaders):
    chosen = [word for loader in loaders for word in ("--loader", loader)]
    with pytest.raises(InputError, match="--buffer-size"):
        count_targets.main([*chosen, "--buffer-size", "5"])
    assert count_targets.main([*chosen, "--loader", "best_fit_crop", "--buffer-size", "5"]) == 0


def test_measured_layouts_have_the_same_targets_and_loss_and_grouping_saves_positions(tmp_path, capsys, monkeypatch):
    """On a tiny corpus; a layout that loses a document differs in its targets."""
    tiny_corpus.write_corpus(tmp_path / "data", "tiny")
    write_json(tmp_path / "protocols/tiny.json", tiny_corpus.protocol())
    prepared = Prepared(tmp_path, "tiny")
    monkeypatch.setattr(throughput, "SMALL", {"layers": 1})
    assert throughput.measure(prepared) == 0
    documents = throughput.first_documents(prepared)
    laid_out = throughput.layouts(documents, prepared.capacity, prepared.bos)
    positions = [sum(batch.inputs[:, 1:].size for batch in found) for found in laid_out.values()]
    printed = capsys.readouterr().out
    assert positions[1] < positions[0] and f"{sum(map(len, documents)) - len(documents):,} targets" in printed
    assert f"of {len(documents)} documents; padding" in printed
    monkeypatch.setattr(throughput, "layouts", lambda *arguments: {**laid_out, "packed": laid_out["packed"][1:]})
    assert throughput.measure(prepared) == 1
    assert "FAIL every layout has the same" in capsys.readouterr().out
