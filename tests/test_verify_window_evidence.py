"""Frozen window evidence stands or falls with its retained losses: every change to either is named, exit 1."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from evidence import read_json, write_json
from research.source_windows import verify_window_evidence
from tiny import frozen_windows
from tiny.frozen_windows import leaves, refreeze, with_other

NAMES = ("lengths", "windows", "counts", "nats")
UNCHECKED = {"inputs", "study", "bos"}  # they stand for files that are not opened, and enter no number
RECORDED = {"weights", "forward_positions", "windows_checked", "seals"}  # of the scoring; no number follows from them
SEALS = {"protocol": "5" * 64, "checkpoints": "6" * 64}


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    root = frozen_windows.protocols(tmp_path_factory.mktemp("study"))
    return frozen_windows.freeze_windows(root)


@pytest.fixture
def copy(frozen, tmp_path):
    """The frozen JSON in a root that holds this evidence alone."""
    return shutil.copytree(frozen.parent, tmp_path / "copy/research/source_windows") / frozen.name


def arrays(path):
    return {name: np.load(path.with_name(f"{path.stem}_{name}.npy")) for name in NAMES}


def verify(path, capsys):
    """(exit code, the lines that fail)."""
    capsys.readouterr()
    code = verify_window_evidence.main(["--root", str(path.parents[2])])
    return code, [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]


def test_sound_evidence_holds_and_every_part_is_looked_at(frozen, capsys):
    assert verify(frozen, capsys) == (0, [])
    found = read_json(frozen)
    assert len(found["cells"]) == 28 and len(found["position_parts"]["rows"]) == 36


def test_it_runs_alone_beside_a_copy_of_evidence_py_and_without_torch(frozen, copy):
    place, question = copy.parents[2], "research/source_windows"
    for source in (f"{question}/verify_window_evidence.py", f"{question}/reference_windows.py", "evidence.py",
                   "files.py", "manifest.py"):
        shutil.copy(frozen_windows.ROOT / source, place / source)
    command = [sys.executable, "-X", "importtime", str(place / question / "verify_window_evidence.py")]
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=copy.parent, env=clean)
    assert done.returncode == 0 and "0 failed" in done.stdout, done.stdout + done.stderr[-500:]
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "numpy" in imported and not imported & {"torch", "resampling", "contrasts", "windows"}


@pytest.mark.parametrize("name", NAMES)
def test_one_changed_byte_of_an_array_is_named(copy, name, capsys):
    path = copy.with_name(f"{copy.stem}_{name}.npy")
    data = bytearray(path.read_bytes())
    data[-8] ^= 1  # the lowest byte of the last value
    path.write_bytes(data)
    code, failed = verify(copy, capsys)
    assert code == 1 and path.name in failed[0]


def test_any_changed_value_of_the_evidence_is_named(frozen, copy, capsys):
    found = read_json(frozen)
    paths = [path for path in leaves(found) if path[0] not in UNCHECKED and path[-1] not in RECORDED]
    small = [path for path in paths if path[0] not in ("cells", "scores", "position_parts")]
    order = np.random.default_rng(0).permutation(len(paths))[:25]
    for path in small + [paths[number] for number in order]:
        write_json(copy, with_other(found, path))
        code, failed = verify(copy, capsys)
        assert code == 1 and failed, path


def test_a_dropped_document_is_named_although_the_rest_is_made_to_fit(copy, capsys):
    found, held = read_json(copy), arrays(copy)
    dropped = held["windows"][-1, 0]
    keep = held["windows"][:, 0] != dropped
    held.update(windows=held["windows"][keep], counts=held["counts"][keep], nats=held["nats"][:, keep])
    totals = held["counts"].sum(axis=(0, 1)).tolist()
    stratum = found["strata"][int(arrays(copy)["windows"][-1, 2])]
    stratum.update(sources=stratum["sources"] - 1, eligible=stratum["eligible"] - 1)
    found.update(windows=int(keep.sum()), sources=found["sources"] - 1, supplied_bytes=totals[0], targets=totals[2])
    refreeze(copy, found, held)
    code, failed = verify(copy, capsys)
    assert code == 1 and all(any(part in line for line in failed) for part in ("selection: window", "strata"))


def swap(array, axis, one, two):
    order = list(range(array.shape[axis]))
    order[one], order[two] = two, one
    return array.take(order, axis)


@pytest.mark.parametrize("what", ["runs", "documents", "beginning and tail"])
def test_swapped_pairs_are_named_although_the_digests_fit(copy, what, capsys):
    found, held = read_json(copy), arrays(copy)
    last = len(held["windows"]) - 1
    beginning = int(np.flatnonzero(held["windows"][:, 0] == held["windows"][last, 0])[0])
    one_run = held["nats"].copy()
    one_run[2] = swap(one_run[2], 0, last, last - 1)
    held["nats"] = {"runs": swap(held["nats"], 0, 0, 1), "documents": one_run,
                    "beginning and tail": swap(held["nats"], 1, beginning, last)}[what]
    refreeze(copy, found, held)
    code, failed = verify(copy, capsys)
    assert code == 1 and any("cells" in line for line in failed)


def test_swapped_conditions_of_interventions_are_named_although_no_number_rests_on_them(copy, capsys):
    found, other = read_json(copy), {"random_crop": "segmented", "segmented": "random_crop"}
    for row in [*found["runs"], *found["cells"]]:
        row["condition"] = other.get(row["condition"], row["condition"])
    write_json(copy, found)
    code, failed = verify(copy, capsys)
    assert code == 1 and len(failed) == 1
    assert all(name in failed[0] for name in ("random_crop_s43", "random_crop_s44", "segmented_s43", "segmented_s44"))


def test_bins_that_do_not_add_up_are_named(copy, capsys):
    found, held = read_json(copy), arrays(copy)
    held["nats"][3, 5, 0] += 1e-3
    refreeze(copy, found, held)
    code, failed = verify(copy, capsys)
    assert code == 1 and "bins differ from their window by at most 1.0e-03" in failed[0]


def test_evidence_of_another_kind_fails_and_a_missing_array_cannot_be_checked(copy, capsys):
    copy.with_name(f"{copy.stem}_nats.npy").unlink()
    with pytest.raises(verify_window_evidence.InputError, match="nats.npy: missing"):
        verify(copy, capsys)
    write_json(copy, {"study": "tiny"})
    assert verify(copy, capsys)[0] == 1


def test_freezing_another_result_is_refused_by_name(copy):
    frozen_windows.protocols(copy.parents[2])
    held = copy.with_name(f"{copy.stem}_nats.npy")
    held.write_bytes(held.read_bytes()[:-1] + b"\0")
    with pytest.raises(verify_window_evidence.InputError, match="nats.npy: frozen"):
        frozen_windows.freeze_windows(copy.parents[2])


def test_freezing_the_same_again_writes_the_same_bytes(frozen, tmp_path):
    again = frozen_windows.freeze_windows(frozen_windows.protocols(tmp_path))
    assert {p.name: p.read_bytes() for p in again.parent.iterdir()} == {
        p.name: p.read_bytes() for p in frozen.parent.iterdir()}
    assert Path(again).read_bytes() == frozen.read_bytes()


# ---------------------------------------------------------------------------------- protocol and models


@pytest.fixture(scope="module")
def confirmation(tmp_path_factory):
    """(root with protocols and checked models, path of a frozen confirmation of them)."""
    root = frozen_windows.protocols(tmp_path_factory.mktemp("confirmed"))
    folder, evaluation = root / "research/confirmation", read_json(root / "protocols/evaluation_tiny.json")
    write_json(folder / "exclusions_tiny.json", {"documents": [45, 60], "excluded": [{"document": 50}]})
    write_json(folder / "protocol_tiny.json", {"content": {"evaluation": evaluation, "excluded": [50]},
                                               "sha256": SEALS["protocol"]})
    frozen_windows.checked_models(root, sha256=SEALS["checkpoints"])
    return root, frozen_windows.freeze_windows(root, "confirmation", SEALS)


def test_a_confirmation_of_its_protocol_and_models_holds(confirmation, capsys):
    assert verify(confirmation[1], capsys) == (0, [])


@pytest.mark.parametrize("edit, failure", [
    (lambda v: v["scoring"][0].update(weights="0" * 64), "models: "),
    (lambda v: v["scoring"][1].update(seals=None), "seals: "),
    (lambda v: v["scoring"][1].update(seals=SEALS | {"protocol": "7" * 64}), "seals: "),
    (lambda v: v["scoring"][2]["padding"].update(windows_checked=0), "scoring: other padding"),
    (lambda v: v.update(excluded=[]), "excluded: 0 entries frozen"),
])
def test_other_models_seals_or_documents_are_named(confirmation, tmp_path, capsys, edit, failure):
    root, path = confirmation
    changed = shutil.copytree(root, tmp_path / "other") / path.relative_to(root)
    found = read_json(changed)
    edit(found)
    write_json(changed, found)
    code, failed = verify(changed, capsys)
    assert code == 1 and any(line.startswith(f"FAIL {failure}") for line in failed), failed


@pytest.mark.parametrize("key, value", [
    ("contrast_strata", ["51-80"]), ("bins", [4]), ("bootstrap", {"replicates": 10, "seed": 1}),
    ("populations", {"development": None, "confirmation": {"documents": [45, 60], "seed": 9}})])
def test_contrasts_that_another_protocol_predeclares_are_named(confirmation, tmp_path, capsys, key, value):
    root, path = confirmation
    other = shutil.copytree(root, tmp_path / "other")
    for name in ("protocols/evaluation_tiny.json", "research/confirmation/protocol_tiny.json"):
        protocol = read_json(other / name)
        evaluation = protocol if "source_windows" in protocol else protocol["content"]["evaluation"]
        evaluation["source_windows"][key] = value
        write_json(other / name, protocol)
    code, failed = verify(other / path.relative_to(root), capsys)
    assert code == 1 and [line.split(".json")[0] for line in failed] == ["FAIL evaluation_tiny", "FAIL protocol_tiny"]
