"""Windows are drawn, cut, scored and compared as stated, and a confirmation is not scored through a closed gate."""

import math
import shutil

import numpy as np
import pytest

from corpora.prepared import Prepared
from evidence import InputError, read_json, write_json
from research.source_windows import analyse_windows, score_windows, select_windows
from research.source_windows import windows as windows_module
from tiny import windows as tiny_windows
from tiny.corpus import CONTEXT, VOCABULARY

pytestmark = pytest.mark.slow

NAMES = ["34-50", "51-80"]


@pytest.fixture(scope="module")
def root(trained, tmp_path_factory):
    """Six trained tiny runs whose development windows are selected, scored and analysed."""
    built = shutil.copytree(trained, tmp_path_factory.mktemp("windows"), dirs_exist_ok=True)
    assert [run(script, built) for script in (select_windows, score_windows, analyse_windows)] == [0, 0, 0]
    return built


def texts_of(root, table):
    return list(windows_module.window_tokens(table, Prepared(root, "tiny")))


def run(script, root, population="development", *more):
    device = ["--device", "cpu"] if script is score_windows else []
    return script.main(["--study", "tiny", "--population", population, "--root", str(root), *device, *more])


def folder(root):
    return root / "runs/tiny/windows/development"


def selected(root):
    record, table, counts = windows_module.Windows("tiny", "development", root).selection()
    return record, table, counts, np.load(root / "data/tiny/validation/lengths.npy")


# ---------------------------------------------------------------------------------------- selection


def test_a_stratum_gives_its_documents_once_and_never_more_than_it_may(root):
    record, table, _, lengths = selected(root)
    edges = [0, *tiny_windows.EVALUATION["source_windows"]["strata"], 10**9]
    beginnings = table[table[:, 3] == 0]
    assert len(set(beginnings[:, 0].tolist())) == len(beginnings) == record["sources"]
    for number, stratum in enumerate(record["strata"]):
        there = {d for d in range(45) if edges[number] < lengths[d] <= edges[number + 1] and lengths[d] > 1}
        drawn = set(beginnings[beginnings[:, 2] == number, 0].tolist())
        assert drawn <= there and len(drawn) == min(5, len(there)) == stratum["sources"]
        assert stratum["eligible"] == len(there) and stratum["census"] == (0 < len(there) <= 5)


def test_only_documents_over_a_row_give_a_tail_and_it_is_their_last_context_tokens(root):
    _, table, _, lengths = selected(root)
    tokens = np.load(root / "data/tiny/validation/tokens.npy").tolist()
    texts = [text.tolist() for text in texts_of(root, table)]
    long = {row[0] for row in table.tolist() if row[1] > CONTEXT + 1}
    assert long == {row[0] for row in table.tolist() if row[3]} and long
    for (document, length, _, tail, _, _), text in zip(table.tolist(), texts):
        begin = sum(lengths[:document]) - document
        whole = tokens[begin : begin + length - 1]
        assert text == (whole[-CONTEXT:] if tail else whole[:CONTEXT])


def test_bytes_and_targets_are_counted_by_position(root):
    record, table, counts, _ = selected(root)
    tables = [np.load(root / f"data/tiny/tokenizer/bytes_{name}.npy") for name in ("supplied", "raw")]
    for window, text in enumerate(texts_of(root, table)):
        expected = np.zeros((3, 3), np.int64)
        for position, token in enumerate(text.tolist()):
            place = 0 if position < 4 else 1 if position < 16 else 2
            expected[place] += [tables[0][token], tables[1][token], 1]
        assert np.array_equal(counts[window], expected)
    assert record["targets"] == table[:, 5].sum() == counts[:, :, 2].sum()


def test_selecting_again_after_deleting_writes_the_same_bytes(root):
    before = {path.name: path.read_bytes() for path in folder(root).iterdir()}
    for name in ("selection.json", "windows.npy", "counts.npy", "lengths.npy", "windows.json"):
        (folder(root) / name).unlink()
    assert run(select_windows, root) == run(score_windows, root) == run(analyse_windows, root) == 0
    assert {path.name: path.read_bytes() for path in folder(root).iterdir()} == before


# ------------------------------------------------------------------------------------------ scoring


def test_padded_windows_lose_what_they_lose_alone_without_padding(root):
    import torch

    from research.saved_runs import SavedRun

    record, table, _, _ = selected(root)
    forward = SavedRun(root / "runs/tiny/segmented_s44", "cpu").forward()
    retained = np.load(folder(root) / "segmented_s44.npy")
    for window, text in enumerate(texts_of(root, table)):
        inputs = torch.tensor([[record["bos"], *text[:-1].tolist()]])
        alone = torch.arange(len(text))[None], torch.zeros(1, len(text), dtype=torch.int64)
        nats = forward.nats(inputs, torch.from_numpy(text)[None], *alone)[0].double().numpy()
        parts = [nats[:4].sum(), nats[4:16].sum(), nats[16:].sum(), nats.sum()]
        assert retained[window] == pytest.approx(parts, rel=1e-5)


def test_scoring_keeps_what_is_scored_and_repeats_a_changed_file(root, capsys):
    path = folder(root) / "baseline_s43.npy"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert run(score_windows, root) == 0
    printed = capsys.readouterr().out
    assert printed.count("scored before, kept") == 5 and "ok   baseline_s43: 3" in printed and path.read_bytes() == data


class Leaky:
    """A model whose loss depends on every input of the row, so that padding matters."""

    device = "cpu"

    def nats(self, inputs, targets):
        import torch

        return torch.where(targets == -100, 0.0, inputs.double().mean(dim=1, keepdim=True))


def test_a_model_that_reads_its_padding_is_found(root):
    record, table, _, _ = selected(root)
    scorer = score_windows.Scorer.__new__(score_windows.Scorer)
    scorer.progress, scorer.forward, scorer.positions, scorer.padded, scorer.largest = iter, Leaky(), 0, 0, 0.0
    scorer.config = {"vocabulary": VOCABULARY, "evaluation": {"microbatch": 4}}
    _, fingerprint = scorer.score(record, table, texts_of(root, table), np.ones(VOCABULARY, np.int64))
    scored = {"fingerprint": fingerprint, "padding": {"largest_difference": scorer.largest}}
    assert scorer.largest > 0 and ["padding" in text for text in score_windows.findings(record, scored)] == [True]
    scored = {"fingerprint": "0", "padding": {"largest_difference": 0.0}}
    assert score_windows.findings(record, scored) == ["the model saw other inputs or targets than were selected"]


def test_changed_weights_are_refused_before_they_are_scored(root):
    path = root / "runs/tiny/baseline_s44/model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    try:
        with pytest.raises(InputError, match="baseline_s44.*model.safetensors"):
            run(score_windows, root)
    finally:
        path.write_bytes(data)


def test_losses_are_kept_only_of_the_same_selection_weights_and_seals(root):
    record = read_json(folder(root) / "baseline_s43.json")
    known = {"selection": record["selection"], "seals": None}
    assert score_windows.scored_before(folder(root), "baseline_s43", root / "runs/tiny/baseline_s43", **known)
    for key in known:
        other = known | {key: {"protocol": "0" * 64}}
        assert not score_windows.scored_before(folder(root), "baseline_s43", root / "runs/tiny/baseline_s43", **other)
    assert not score_windows.scored_before(folder(root), "baseline_s43", root / "runs/tiny/baseline_s44", **known)


# ------------------------------------------------------------------------------------- confirmation


def test_a_confirmation_needs_the_list_of_duplicates_and_an_open_gate(root, monkeypatch):
    with pytest.raises(InputError, match="exclusions_tiny.json: missing"):
        run(select_windows, root, "confirmation")
    exclusions = root / "research/confirmation/exclusions_tiny.json"
    try:
        write_json(exclusions, {"documents": [44, 60], "excluded": []})
        with pytest.raises(InputError, match=r"exclusions_tiny.json: documents: .*\[45, 60\]"):
            run(select_windows, root, "confirmation")
        write_json(exclusions, {"documents": [45, 60], "excluded": [{"document": 47}, {"document": 50}]})
        assert run(select_windows, root, "confirmation") == 0
        there = root / "runs/tiny/windows/confirmation"
        assert not {47, 50} & set(np.load(there / "windows.npy")[:, 0].tolist())
        with pytest.raises(InputError, match="missing key confirmation"):
            run(score_windows, root, "confirmation")
        assert not list(there.glob("*_s4*"))
        monkeypatch.setattr(score_windows, "require_gate", lambda windows: None)
        assert run(score_windows, root, "confirmation") == run(analyse_windows, root, "confirmation") == 0
        found = read_json(there / "windows.json")
        assert found["contrasts"]["status"] == "predeclared" and found["position_parts"] is None
    finally:
        exclusions.unlink()


# ---------------------------------------------------------------------------------------- contrasts


def test_contrasts_are_ratios_of_sums_against_the_same_seed(root):
    evidence, (record, table, counts, _) = read_json(folder(root) / "windows.json"), selected(root)
    size = counts[:, :, 0].sum(axis=1)
    seen = 0
    for cell in evidence["cells"]:
        number = [windows_module.name_of(s) for s in record["strata"]].index(cell["stratum"])
        deltas = {}
        for tail, kind in enumerate(("beginning", "tail")):
            rows = (table[:, 2] == number) & (table[:, 3] == tail)
            if rows.any():
                one, base = (np.load(folder(root) / f"{name}.npy")[rows, -1].sum() / (math.log(2) * size[rows].sum())
                             for name in (cell["run"], f"baseline_s{cell['seed']}"))
                deltas[kind] = one - base
        if len(deltas) == 2:
            deltas["tail_minus_beginning"] = deltas["tail"] - deltas["beginning"]
        assert {name: q["value"] for name, q in cell["quantities"].items()} == pytest.approx(deltas, abs=1e-9)
        seen += len(deltas)
    assert seen == 4 * (3 + 3 * 3) and evidence["contrasts"] == {"number": 8, "status": "exploratory"}


def test_the_eight_contrasts_alone_have_an_adjusted_interval_and_it_holds_the_ordinary_one(root):
    cells = read_json(folder(root) / "windows.json")["cells"]
    assert [cell["stratum"] in NAMES for cell in cells] == [cell["contrast"] for cell in cells]
    assert sum(cell["contrast"] for cell in cells) == 8
    for cell in cells:
        for entry in cell["quantities"].values():
            assert ("interval_adjusted" in entry) == cell["contrast"]
            if cell["contrast"] and not cell["degenerate"]:
                (low, high), (wide_low, wide_high) = entry["interval_95"], entry["interval_adjusted"]
                assert wide_low <= low <= high <= wide_high


def test_position_parts_add_up_and_one_that_misses_its_window_exits_1(root, capsys, monkeypatch):
    parts = read_json(folder(root) / "windows.json")["position_parts"]
    assert parts["status"] == "post hoc" and parts["largest_error"] <= 1e-12 and len(parts["rows"]) == 4 * 9
    for row in parts["rows"]:
        assert math.fsum(row["parts"]) == pytest.approx(row["whole"], abs=1e-7)
    real = analyse_windows.read_losses

    def shifted(windows):
        nats, scoring = real(windows)
        nats[1, :, 0] += 0.01
        return nats, scoring

    monkeypatch.setattr(analyse_windows, "read_losses", shifted)
    assert run(analyse_windows, root) == 1 and "FAIL position parts" in capsys.readouterr().out
    monkeypatch.undo()
    assert run(analyse_windows, root) == 0
