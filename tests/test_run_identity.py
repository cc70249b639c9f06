"""A frozen result is the run of its condition and seed: swapped labels are found by what the runs hashed."""

import pytest

from evidence import read_json, sha256_bytes, sha256_file, write_json
from manifest import format_manifest, read_manifest
from research import run_identity
from research.matched_training import verify_training_table as verifier
from tiny.lies import ROOT, copy_evidence, edit, relabel, reseal

STUDIES = ("demo", "wheels")


@pytest.fixture
def root(tmp_path):
    """A repository of frozen evidence alone."""
    return copy_evidence(tmp_path)


def verify(root, capsys, study="wheels"):
    """(exit code, the lines that failed, everything printed)."""
    capsys.readouterr()
    code = verifier.main(["--root", str(root), "--study", study])
    printed = capsys.readouterr().out
    return code, [line for line in printed.splitlines() if line.startswith("FAIL")], printed


@pytest.mark.parametrize("study", STUDIES)
def test_the_frozen_runs_are_bound_and_nothing_is_left_out(root, study, capsys):
    code, failures, printed = verify(root, capsys, study)
    assert (code, failures) == (0, []) and printed.count("left out") == 1  # the curves, which were measured
    for what in ("SHA-256 of its settings", "size and budget", "loader.py is random_span.py", "plans and rows of",
                 f"prepared data of {study}.sha256"):
        assert what in printed


@pytest.mark.parametrize("study", STUDIES)
def test_swapped_conditions_are_named_by_settings_loader_and_rows(root, study, capsys):
    relabel(root, study, "baseline", "random_crop")
    code, failures, _ = verify(root, capsys, study)
    assert code == 1 and len(failures) == 12
    for what in ("SHA-256 of its settings", "loader.py is ", "plans and rows of the stream audit.plan"):
        assert sum(what in line for line in failures) == 4, failures
    assert not any("segmented" in line for line in failures)


@pytest.mark.parametrize("study", STUDIES)
def test_swapped_seeds_are_named_by_the_settings(root, study, capsys):
    relabel(root, study, "_s43", "_s44")
    code, failures, _ = verify(root, capsys, study)
    assert code == 1 and len(failures) == 6 and all("SHA-256 of its settings" in line for line in failures)


def of_all(**changes):
    """A lie that all results tell alike."""
    def change(results):
        for run in results["runs"].values():
            run.update(changes)
    return change


def half_the_flops(results):
    for run in results["runs"].values():
        run.update(flops_per_token=run["flops_per_token"] // 2, total_flops=run["total_flops"] // 2)


def other_data(results):
    for run in results["runs"].values():
        run["digests"]["inputs"]["train/tokens.npy"] = "0" * 64


def other_evaluation(results):
    for run in results["runs"].values():
        run["digests"]["evaluation_plan"] = "0" * 64


@pytest.mark.parametrize("lie, named", [
    (of_all(parameters=12345), "size and budget of the protocol.parameters"),
    (half_the_flops, "size and budget of the protocol.flops_per_token"),
    (of_all(study="demo"), "size and budget of the protocol.study"),
    (other_data, "prepared data of wheels.sha256.train/tokens.npy"),
    (other_evaluation, "plans and rows of the stream audit.evaluation_plan"),
    (lambda v: v["runs"].pop("segmented_s44"), "runs of the protocol"),
])
def test_what_all_results_claim_alike_is_held_against_protocol_data_and_audit(root, lie, named, capsys):
    edit(root / "research/matched_training/wheels.json", lie)
    if "segmented_s44" in read_json(root / "research/matched_training/wheels.json")["runs"]:
        reseal(root, "wheels")
    code, failures, _ = verify(root, capsys)
    assert code == 1 and any(named in line for line in failures), failures


def test_another_protocol_loader_or_list_of_data_is_found_from_its_side(root, capsys):
    protocol = read_json(root / "protocols/wheels.json")
    protocol["optimizer"]["muon"]["rate"] *= 2
    write_json(root / "protocols/wheels.json", protocol)
    path = root / "loaders/random_span.py"
    path.write_bytes(path.read_bytes() + b"\n")
    path = root / "manifests/wheels.sha256"
    path.write_bytes(format_manifest(read_manifest(path) | {"train/tokens.npy": "0" * 64}))
    code, failures, _ = verify(root, capsys)
    assert code == 1 and len(failures) == 6 + 2 + 6
    for what, count in (("SHA-256 of its settings", 6), ("loader.py is random_span.py", 2),
                        ("prepared data of wheels.sha256.train/tokens.npy", 6)):
        assert sum(what in line for line in failures) == count, failures


def test_what_is_not_there_is_left_out_by_name(root, capsys):
    gone = ["protocols/wheels.json", "research/source_exclusion/wheels.json", "manifests/wheels.sha256"]
    for name in gone:
        (root / name).unlink()
    code, failures, printed = verify(root, capsys)
    assert (code, failures) == (0, [])
    assert all(f"left out {root / name}: not here" in printed for name in gone)
    copy = copy_evidence(root / "again")
    (copy / "loaders/segment_first.py").unlink()
    code, failures, printed = verify(copy, capsys)
    assert (code, failures) == (0, []) and printed.count("segment_first.py: not here") == 2


@pytest.mark.parametrize("study", STUDIES)
def test_the_settings_written_again_are_those_that_a_run_was_given(study):
    """Against the settings' SHA-256 as the list of generated files has it, for every run."""
    path = ROOT / f"protocols/{study}.json"
    protocol, results = read_json(path), read_json(ROOT / f"research/matched_training/{study}.json")["runs"]
    listed = read_manifest(ROOT / f"research/matched_training/runs_{study}.sha256")
    for name, run in results.items():
        given = run_identity.settings(protocol, sha256_bytes(path.read_bytes()), run["condition"], run["seed"],
                                    run["digests"]["inputs"])
        assert sha256_bytes(given) == listed[f"{name}/config.json"]


@pytest.mark.parametrize("study", ["demo", "wheels", "climbmix"])
def test_size_and_cost_counted_from_the_shape_are_the_trainer_s(study):
    import train

    protocol = read_json(ROOT / f"protocols/{study}.json")
    for layers, pattern in ((1, "L"), (2, "S"), (5, "SL"), (protocol["model"]["layers"], "SSSL")):
        config = protocol | {"model": protocol["model"] | {"layers": layers, "window_pattern": pattern}}
        vocabulary = protocol["tokenizer"]["vocabulary"]
        described = train.describe(config, vocabulary)
        assert run_identity.model_size(config["model"], vocabulary, protocol["packing"]["context"]) == (
            described["parameters"], described["flops_per_token"])


@pytest.mark.parametrize("study", STUDIES)
def test_the_code_of_the_frozen_runs_is_in_the_supplement(study):
    listed = read_manifest(ROOT / f"research/matched_training/runs_{study}.sha256")
    own = ("config.json", "loader.py")  # the second is a copy under another name
    code = {(name.split("/")[-1], digest) for name, digest in listed.items() if not name.endswith(own)}
    kept = {(path.name, sha256_file(path)) for path in (ROOT / "supplement_v1").rglob("*.py")}
    assert code and code <= kept
