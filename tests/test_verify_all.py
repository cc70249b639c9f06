"""A reader with only the archive finds every damage, a byte, a number, a file, and learns what was not checked.

The supplement is the repository's, complete, with made-up losses where a study is trained (made_up_supplement.py).
One byte of *every* file is flipped against the first part, the closed world of files; the deeper verifiers are held to
their own claims: a number of each frozen file is altered, and the lists are forged to fit.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import freeze_supplement
import verify_all
from bundles import archive as supplements
from evidence import read_json, sha256_file, write_json
from manifest import format_manifest
from research.frozen_arrays import npy_bytes
from tiny import whole_repository as made_up_supplement

CLAIMS = {  # part: {evidence file: (a number that the part derives or holds against another, how it is named)}
    "length histogram": {
        "source_exclusion/length_histogram_demo.json": ("thresholds.0.documents", "length >= "),
        "source_exclusion/length_histogram_wheels.json": ("histogram.3.1", "wheels: documents"),
        "source_exclusion/paper_thresholds.json": ("thresholds.1.earliest_pass", "paper: length >= "),
    },
    "training table, demo": {
        "matched_training/demo.json": ("runs.baseline_s43.score.bits_per_byte", "baseline_s43: score"),
        "matched_training/checkpoints_demo.json": ("content.runs.segmented_s43.rescored.nats", "segmented_s43"),
        "matched_training/curves_demo.json": ("runs.baseline_s43.seconds.249", "baseline_s43: end of the curve"),
    },
    "training table, tiny": {
        "matched_training/tiny.json": ("runs.segmented_s44.seconds.run", "SHA-256 of result.json"),
        "matched_training/checkpoints_tiny.json": ("content.runs.baseline_s43.rescored.nats", "baseline_s43"),
        "matched_training/curves_tiny.json": ("runs.segmented_s44.seconds.11", "segmented_s44: end of the curve"),
    },
    "evaluation summary": {
        "prefix_ranking/tiny.json": ("contrasts.0.subsets_95.1", "contrasts[0].subsets_95[1]"),
    },
    "window evidence": {
        "source_windows/tiny_development.json": ("position_parts.rows.5.parts.0", "position parts.rows[5]"),
        "source_windows/tiny_confirmation.json": ("strata.2.eligible", "strata.strata[2]"),
    },
    "confirmation": {
        "confirmation/tiny.json": ("bits_per_byte_minus_baseline.segmented_s43", "segmented_s43 minus baseline_s43"),
        "confirmation/protocol_tiny.json": ("content.stream.rows", "protocol: hash of content and time"),
        "confirmation/exclusions_tiny.json": ("excluded.0.document", "excluded documents"),
    },
    "published tables": {
        "published_tables/version_1.json": ("groups.confirmation.values.baseline_s43.bpb", "confirmation."),
        "published_tables/version_2.json": ("groups.census.values.documents", "census."),
        "published_tables/relations.json": ("constants.values.kv_heads", "recipe.kv_heads"),
    },
    "batch boundaries": {
        "batch_boundaries/accumulation.json": ("cases.unequal.by_target", "accumulation.json.cases.unequal"),
        "batch_boundaries/batch_note.json": ("views.padded.labels.0.1", "batch_note.json.views.padded"),
        "batch_boundaries/boundaries.json": (
            "semantics.independent.exact.gradient_isolated: nonzero gradients towards the first document's embeddings",
            "boundaries.json: independent"),
        "batch_boundaries/chunking_demo.json": ("designs.drop_rest.windows", "chunking_demo.json.designs"),
        "batch_boundaries/chunking_note.json": ("designs.drop_rest.windows", "chunking_note.json.designs.drop_rest"),
        "batch_boundaries/collators.json": ("cases.10.documents.2.5", "collators.json: cases[10]"),
        "batch_boundaries/split_demo.json": ("documents.train", "split_demo.json: "),
        "batch_boundaries/split_wheels.json": ("groupings.package.groups.train", "split_wheels.json: "),
        "batch_boundaries/targets_demo.json": ("loaders.best_fit_crop.row_targets.21", "targets_demo.json."),
    },
    "token bytes": {
        "token_bytes/demo.json": ("streams.scored.supplied_bytes", "score.supplied_bytes"),
        "token_bytes/wheels.json": ("score.baseline_s43.nats", "baseline_s43: score"),
    },
    "resources": {
        "resources/demo.json": ("records.trainings.0.seconds.loop", "trainings.run.seconds.loop"),
        "resources/wheels.json": ("totals.scorings.confirmation.forward_positions", "confirmation.forward_positions"),
    },
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Where supplement_v1/ and its archive lie, frozen complete from the made-up repository, and so verified."""
    place = tmp_path_factory.mktemp("made")
    repository = made_up_supplement.build(place / "repository", place / "study")
    assert freeze_supplement.main(["v1", "--root", str(repository), "--out", str(place)]) == 0
    return place


@pytest.fixture(scope="module")
def unpacked(made, tmp_path_factory):
    """An empty folder in which nothing but the archive was unpacked."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(made / "dist/supplement_v1.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    return folder / "supplement_v1"


@pytest.fixture
def copy(unpacked, tmp_path):
    return shutil.copytree(unpacked, tmp_path / "supplement_v1")


def listed(folder):
    """The names of all files but the list."""
    return sorted(set(supplements.read_folder(folder)) - {"manifest.sha256"})


def part_named(folder, name):
    return next(part for part in read_json(folder / "parts.json")["parts"] if part["name"] == name)


def run(folder, name):
    return verify_all.run_part(part_named(folder, name), folder)


def keep_parts(folder, *names):
    """Leave these parts alone in parts.json, and have the list agree."""
    content = read_json(folder / "parts.json")
    write_json(folder / "parts.json", content | {"parts": [part for part in content["parts"] if part["name"] in names]})
    forge_lists(folder)


def forge_lists(folder):
    """Both lists rewritten to fit whatever lies there."""
    frozen = {path.relative_to(folder).as_posix(): sha256_file(path) for path in (folder / "research").rglob("*.json")}
    (folder / "manifests/frozen.sha256").write_bytes(format_manifest(frozen))
    digests = {name: sha256_file(folder / name) for name in listed(folder)}
    (folder / "manifest.sha256").write_bytes(format_manifest(digests))


def verify(folder, *command):
    """(exit code, what verify_all.py of the folder printed), run from elsewhere."""
    command = [*(command or (sys.executable,)), str(folder / "verify_all.py")]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout + done.stderr


def alter(value, path):
    """Change the number or the last digit of the printed number at a dotted path."""
    first, _, rest = path.partition(".")
    key = int(first) if isinstance(value, list) else first
    if rest:
        return alter(value[key], rest)
    old = value[key]
    digit = {str: lambda: old[:-1] + "31"[old[-1] == "3"], int: lambda: old + 1, float: lambda: old * 1.001}
    value[key] = digit[type(old)]()
    assert value[key] != old


# -------------------------------------------------------------------------------------------- what holds


def test_with_the_archive_alone_everything_holds_and_the_folder_is_left_as_it_was(unpacked):
    before = supplements.read_folder(unpacked)
    code, printed = verify(unpacked)
    assert code == 0, printed
    rows = [line for line in printed.splitlines() if line.endswith("  holds")]
    names = ["files", *(name.replace("wheels", "tiny") for name in made_up_supplement.PARTS)]
    assert [row[: verify_all.WIDTH].strip() for row in rows] == names
    assert all(int(row.split()[-4]) > 0 and int(row.split()[-3]) == 0 for row in rows)
    assert f"{len(names)} parts: {len(names)} hold, 0 failed, 0 not checked" in printed
    assert supplements.read_folder(unpacked) == before and not list(unpacked.rglob("__pycache__"))


def test_the_parts_tried_here_are_parts_of_version_1():
    names = [part["name"] for part in made_up_supplement.contents()["parts"]]
    assert set(made_up_supplement.PARTS) <= set(names) and len(names) == len(set(names))
    assert all(len(name) < verify_all.WIDTH for name in names)


def test_the_caller_s_python_settings_reach_no_verifier(unpacked, tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('a stranger was imported')\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONOPTIMIZE": "2"}
    part = part_named(unpacked, "length histogram")
    code = f"import sys, pathlib; sys.path[:0] = [{str(unpacked)!r}]; sys.path.remove({str(tmp_path)!r})\n"
    code += f"import verify_all; print(verify_all.run_part({part!r}, pathlib.Path({str(unpacked)!r})).verdict)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd="/")
    assert done.stdout == "holds\n", done.stderr


@pytest.mark.parametrize("options, settings", [(["-I"], {}), ([], {"PYTHONSAFEPATH": "1"})])
def test_where_python_is_told_not_to_look_beside_a_script_the_modules_are_found(copy, monkeypatch, options, settings):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    keep_parts(copy, "length histogram", "published tables", "resources")
    code, printed = verify(copy, sys.executable, *options)
    assert code == 0 and "4 parts: 4 hold, 0 failed, 0 not checked" in printed, printed


def test_without_numpy_the_rest_is_checked_and_the_exit_code_says_so(copy, tmp_path):
    keep_parts(copy, "length histogram", "evaluation summary", "window evidence", "confirmation")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    code, printed = verify(copy, str(tmp_path / "bare/bin/python"))
    assert code == 2 and "5 parts: 2 hold, 0 failed, 3 not checked" in printed
    for name in ("evaluation summary", "window evidence", "confirmation"):
        assert f"{name}: needs numpy: python -m pip install numpy" in printed


# ------------------------------------------------------------------------------- damage to the files


def flip(path, number):
    """Flip one bit of a file; which one, `number` says."""
    data = bytearray(path.read_bytes())
    data[number * 7919 % len(data)] ^= 1 << number % 8
    path.write_bytes(data)


def test_one_flipped_byte_of_every_file_is_found_and_named(copy):
    names = listed(copy)
    for number, name in enumerate(names):
        flip(copy / name, number)
    outcome = verify_all.check_files(copy)
    assert len(names) > 150 and outcome.verdict == verify_all.FALSE and outcome.made == outcome.failed == len(names)
    assert [line.split(": ")[:2] for line in outcome.lines] == [[name, "changed"] for name in names]


def test_one_flipped_byte_of_a_single_file_is_enough(copy):
    for number, name in list(enumerate(listed(copy)))[::12]:
        flip(copy / name, number)
        outcome = verify_all.check_files(copy)
        assert [line.split(": ")[:2] for line in outcome.lines] == [[name, "changed"]]
        flip(copy / name, number)
    assert verify_all.check_files(copy).verdict == verify_all.HOLDS


def test_every_deleted_file_is_found_and_named(copy):
    names = listed(copy)[::2]
    for name in names:
        (copy / name).unlink()
    assert verify_all.check_files(copy).lines == [f"{name}: missing" for name in names]


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "research/more.json", "loaders/__pycache__/rows.pyc"])
def test_an_added_file_is_found_and_named(copy, name):
    (copy / name).parent.mkdir(exist_ok=True)
    (copy / name).write_text("")
    assert verify_all.check_files(copy).lines == [f"{name}: extra"]


@pytest.mark.parametrize("name", ["./LICENSE", "research//README.md", "-"])
def test_a_list_with_a_second_spelling_of_a_file_is_refused_by_name(copy, name):
    """It would pass as one more file; `-` is standard input to sha256sum."""
    path = copy / "manifest.sha256"
    if name == "-":
        (copy / name).write_text("")
    path.write_bytes(path.read_bytes() + f"{sha256_file(copy / name)}  {name}\n".encode())
    outcome = verify_all.check_files(copy)
    assert outcome.verdict == verify_all.UNCHECKED and any(repr(name) in line for line in outcome.lines)


def test_a_link_in_place_of_a_file_is_found_and_named(copy, tmp_path):
    (copy / "LICENSE").rename(tmp_path / "LICENSE")
    (copy / "LICENSE").symlink_to(tmp_path / "LICENSE")
    assert verify_all.check_files(copy).lines == ["LICENSE: symlink"]


@pytest.mark.parametrize("number", [0, 3, 70, 2000])
def test_a_flipped_byte_of_the_list_itself_never_holds(copy, number):
    path = copy / "manifest.sha256"
    data = bytearray(path.read_bytes())
    data[number] ^= 1
    path.write_bytes(data)
    outcome = verify_all.check_files(copy)
    assert outcome.verdict != verify_all.HOLDS and outcome.lines


def test_a_damaged_file_ends_the_whole_command_with_1_and_is_named(copy):
    keep_parts(copy, "length histogram")
    path = copy / "research/theorem/counterexamples.py"
    path.write_bytes(path.read_bytes() + b"#")
    code, printed = verify(copy)
    assert code == 1 and "1 hold, 1 failed" in printed
    assert "files: research/theorem/counterexamples.py: changed" in printed


@pytest.mark.parametrize("name", ["evidence.py", "bundles/archive.py", "verify_all.py"])
def test_a_broken_module_of_the_command_itself_is_named_and_does_not_hold(copy, name):
    data = (copy / name).read_bytes()
    (copy / name).write_bytes(data[:-1] + b"(\n")
    code, printed = verify(copy)
    assert code != 0 and name in printed and "hold, 0 failed" not in printed


# ------------------------------------------------------------------------------------ damage to a claim


def test_there_is_a_claim_for_every_frozen_file_of_a_part(unpacked):
    parts = read_json(unpacked / "parts.json")["parts"]
    frozen = {name.removeprefix("research/") for part in parts for name in part["evidence"] if name.endswith(".json")}
    assert set().union(*CLAIMS.values()) == frozen


def claims_apart():
    """(part, files to alter at a time): one, or all of the part that takes a second and names files."""
    slow = "batch boundaries"
    return [(part, [name]) for part in CLAIMS if part != slow for name in CLAIMS[part]] + [(slow, list(CLAIMS[slow]))]


@pytest.mark.parametrize("part, names", claims_apart(), ids=lambda value: value[0] if type(value) is list else value)
def test_an_altered_number_is_found_by_its_part_although_the_lists_are_forged(copy, part, names):
    for name in names:
        content = json.loads((copy / "research" / name).read_text())
        alter(content, CLAIMS[part][name][0])
        write_json(copy / "research" / name, content)
    forge_lists(copy)
    assert verify_all.check_files(copy).verdict == verify_all.HOLDS
    outcome = run(copy, part)
    assert outcome.verdict == verify_all.FALSE and outcome.failed >= len(names)
    missed = [name for name in names if not any(CLAIMS[part][name][1] in line for line in outcome.lines)]
    assert not missed, outcome.lines


@pytest.mark.parametrize("part, stem", [
    ("evaluation summary", "prefix_ranking/tiny"), ("window evidence", "source_windows/tiny_confirmation")])
def test_an_altered_loss_is_found_although_all_digests_are_forged(copy, part, stem):
    path = copy / f"research/{stem}_nats.npy"
    losses = np.load(path)
    losses[1, 0] += 0.25
    path.write_bytes(npy_bytes(losses))
    evidence = copy / f"research/{stem}.json"
    content = read_json(evidence)
    content["files"][path.name] = sha256_file(path)
    write_json(evidence, content)
    forge_lists(copy)
    assert verify_all.check_files(copy).verdict == verify_all.HOLDS
    assert run(copy, part).verdict == verify_all.FALSE


# ---------------------------------------------------------------------------- what could not be checked


def test_missing_evidence_is_named_and_never_passed_over(copy):
    for name in ("research/source_windows/tiny_development.json", "research/source_windows/verify_window_evidence.py"):
        data = (copy / name).read_bytes()
        (copy / name).unlink()
        outcome = run(copy, "window evidence")
        assert outcome.verdict == verify_all.UNCHECKED and f"{name}: missing" in outcome.lines[0]
        (copy / name).write_bytes(data)


@pytest.mark.parametrize("script, said", [
    ("print('3 checks, 0 failed'); raise SystemExit(2)", "exit code 2"),
    ("raise SystemExit(0)", "exit code 0: it said nothing"),
    ("print('0 checks, 0 failed')", "exit code 0: 0 checks"),
    ("print('3 checks, 1 failed')", "exit code 0: 3 checks, 1 failed"),
    ("print('3 checks, 0 failed'); raise SystemExit(1)", "exit code 1"),
    ("import a_module_that_is_not_there", "exit code 1: ModuleNotFoundError"),
])
def test_a_verifier_whose_count_and_exit_code_disagree_has_checked_nothing(copy, script, said):
    (copy / "research/source_exclusion/check_length_histogram.py").write_text(script)
    outcome = run(copy, "length histogram")
    assert outcome.verdict == verify_all.UNCHECKED and said in outcome.lines[0]


def test_only_the_failed_checks_and_what_stands_below_them_are_shown():
    printed = "ok   one\n     below one\nFAIL two\n     below two\nok   three\n     below three\n"
    assert verify_all.false_lines(printed) == ["two", "below two"]


@pytest.mark.parametrize("text", ["", "[]", '{"parts": []}', '{"frozen_without": [], "parts": []}',
                                  '{"frozen_without": [], "parts": [{"name": "one"}]}'])
def test_a_broken_list_of_parts_is_named_after_the_files_were_checked(copy, text):
    (copy / "parts.json").write_text(text)
    code, printed = verify(copy)
    assert code == 1 and "files: parts.json: changed" in printed and f"parts.json: {copy / 'parts.json'}" in printed


def test_false_outweighs_unchecked_and_unchecked_outweighs_what_holds():
    outcomes = {verdict: verify_all.Outcome("one", 1, 0, 0.0, verdict, []) for verdict in
                (verify_all.HOLDS, verify_all.UNCHECKED, verify_all.FALSE)}
    holds, unchecked, false = outcomes.values()
    found = [[holds], [holds, unchecked], [unchecked, false, holds]]
    assert [verify_all.exit_code(outcomes) for outcomes in found] == [0, 2, 1]


@pytest.mark.parametrize("folder", [Path(__file__).parent, Path("/nowhere")])
def test_a_folder_without_a_list_cannot_be_checked(folder, capsys):
    with pytest.raises(verify_all.InputError, match="must be an unpacked supplement"):
        verify_all.main([str(folder)])
