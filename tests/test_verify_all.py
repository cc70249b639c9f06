"""verify_all.py runs every verifier of a list, finds every damage to a supplement, and says what it did not check.

Most tests use a supplement of two verifiers. The list of this repository is held to its frozen files: every one has a
verifier that finds a changed number in it.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import verify_all
from bundles.archive import read_folder
from bundles.contents import EACH
from evidence import read_json, write_json
from files import sha256_file
from manifest import format_manifest, read_manifest

ROOT = Path(__file__).resolve().parents[1]
CHECKER = """\
import json, sys
name = sys.argv[1]
holds = json.load(open(f"research/{name}.json"))["value"] == 1
print(f"ok   {name}" if holds else f"FAIL {name}: value is not 1")
print("ok   two\\n2 checks,", 0 if holds else 1, "failed")
sys.exit(0 if holds else 1)
"""


def verifier(name, **changes):
    return {"name": name, "claim": "It is 1.", "command": ["research/check.py", name], "needs": [], "data": [],
            "default": True, "seconds": 1, "evidence": [f"research/{name}.json"]} | changes


def write_list(folder, *verifiers, supplement="supplement_v1"):
    """Write the list of verifiers, and a manifest that agrees with whatever is there."""
    content = {"frozen_without": ["a picture"], "supplement": supplement, "verifiers": verifiers}
    write_json(folder / "manifests/verifiers.json", content)
    names = sorted(set(read_folder(folder)) - {"manifest.sha256"})
    (folder / "manifest.sha256").write_bytes(format_manifest({name: sha256_file(folder / name) for name in names}))


@pytest.fixture
def folder(tmp_path):
    """A supplement whose verifiers `a` and `b` hold."""
    for name in EACH:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / "research").mkdir()
    (tmp_path / "research/check.py").write_text(CHECKER)
    for name in "ab":
        write_json(tmp_path / f"research/{name}.json", {"value": 1})
    write_list(tmp_path, verifier("a"), verifier("b"))
    return tmp_path


def verify(folder, *options, python=(sys.executable,)):
    """(exit code, text printed) of the folder's own verify_all.py, run from elsewhere."""
    command = [*python, str(folder / "verify_all.py"), *options]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


# -------------------------------------------------------------------------------------------- what holds


def test_a_sound_supplement_holds_and_is_left_as_it_was(folder):
    before = read_folder(folder)
    code, printed = verify(folder)
    assert code == 0, printed
    assert sorted(line.split("(")[0] for line in printed.splitlines() if line.startswith("ok")) == [
        "ok   a: 2 checks ", "ok   b: 2 checks ", f"ok   files: {len(before) - 1} checks "]
    assert "frozen without a picture\n" in printed and "3 verifiers: 3 hold, 0 failed, 0 not checked" in printed
    assert printed.endswith(f"\n{len(before) + 3} checks, 0 failed\n")
    assert read_folder(folder) == before


def test_named_verifiers_run_alone_and_an_unknown_name_lists_them(folder):
    code, printed = verify(folder, "--only", "b")
    assert code == 0 and "ok   b: " in printed and "ok   a: " not in printed and "left out: 1 verifiers" in printed
    code, printed = verify(folder, "--only", "c")
    assert code == 2 and "no verifier 'c'; there are a, b" in printed


def test_what_does_not_run_by_default_runs_with_all(folder):
    write_list(folder, verifier("a"), verifier("b", default=False))
    code, printed = verify(folder)
    assert code == 0 and "ok   b" not in printed and "left out: 1 verifiers" in printed
    assert "ok   b: 2 checks" in verify(folder, "--all")[1]


def test_the_caller_s_python_settings_reach_no_verifier(folder, tmp_path, monkeypatch):
    (folder.parent / "json.py").write_text("raise SystemExit('a stranger was imported')\n")
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    outcome = verify_all.run_verifier(verifier("a"), folder)
    (folder.parent / "json.py").unlink()
    assert outcome.verdict == verify_all.HOLDS


@pytest.mark.parametrize("option, settings", [("-I", {}), ("-B", {"PYTHONSAFEPATH": "1"})])
def test_where_python_is_told_not_to_look_beside_a_script_the_modules_are_found(folder, monkeypatch, option, settings):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    code, printed = verify(folder, python=(sys.executable, option))
    assert code == 0 and "3 hold, 0 failed" in printed, printed


# ---------------------------------------------------------------------------------------- what is false


def test_a_number_that_is_false_is_found_by_its_verifier_although_the_list_was_forged(folder):
    write_json(folder / "research/a.json", {"value": 2})
    write_list(folder, verifier("a"), verifier("b"))
    code, printed = verify(folder)
    assert code == 1 and "FAIL a: 2 checks, 1 failed" in printed and "\n     a: value is not 1\n" in printed
    assert "3 verifiers: 2 hold, 1 failed, 0 not checked" in printed and printed.endswith("checks, 1 failed\n")


def test_one_flipped_bit_of_any_file_is_found_and_named(folder):
    names = sorted(set(read_folder(folder)) - {"manifest.sha256"})
    for number, name in enumerate(names):
        data = bytearray((folder / name).read_bytes())
        data[number * 7919 % len(data)] ^= 1 << number % 8
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(data)
        outcome = verify_all.check_files(folder)
        assert outcome.verdict == verify_all.FALSE and len(outcome.lines) == 1
        assert outcome.lines[0].startswith(f"{name}: changed")
        (folder / name).write_bytes(before)
    assert verify_all.check_files(folder).verdict == verify_all.HOLDS


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "research/more.json", "bundles/__pycache__/names.pyc"])
def test_an_added_file_is_found_and_named(folder, name):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("")
    assert verify_all.check_files(folder).lines == [f"{name}: extra"]


@pytest.mark.parametrize("name", ["./LICENSE", "research//check.py", "-"])
def test_a_list_with_a_second_spelling_of_a_file_is_refused_by_name(folder, name):
    """It would pass as one more file; `-` is standard input to sha256sum."""
    path = folder / "manifest.sha256"
    path.write_bytes(path.read_bytes() + f"{'0' * 64}  {name}\n".encode())
    outcome = verify_all.check_files(folder)
    assert outcome.verdict == verify_all.UNCHECKED and repr(name) in outcome.lines[0]


@pytest.mark.parametrize("number", [0, 3, 70, 300])
def test_a_flipped_bit_of_the_list_itself_never_holds(folder, number):
    path = folder / "manifest.sha256"
    data = bytearray(path.read_bytes())
    data[number] ^= 1
    path.write_bytes(data)
    outcome = verify_all.check_files(folder)
    assert outcome.verdict != verify_all.HOLDS and outcome.lines


def test_a_supplement_without_its_list_of_files_does_not_hold(folder):
    (folder / "manifest.sha256").unlink()
    code, printed = verify(folder)
    assert code == 2 and "not checked: files: " in printed and "manifest.sha256: cannot be read" in printed


@pytest.mark.parametrize("name", ["evidence.py", "bundles/archive.py", "verify_all.py"])
def test_a_broken_module_of_the_command_itself_does_not_hold(folder, name):
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[:-1] + b"(\n")
    code, printed = verify(folder)
    assert code != 0 and name in printed and "3 hold" not in printed


# ---------------------------------------------------------------------------------- what is not checked


@pytest.mark.parametrize("changes, reason", [
    ({"needs": ["nothing_has_this_name"]}, "needs nothing_has_this_name: python -m pip install nothing_has_this_name"),
    ({"evidence": ["research/gone.json"]}, "research/gone.json: missing"),
    ({"data": ["data/demo/prepared.json"]}, "data/demo/prepared.json: missing"),
    ({"command": ["research/gone.py"]}, "research/gone.py: missing"),
    ({"command": ["-c", "raise SystemExit(2)"], "evidence": []}, "-c: missing"),
])
def test_a_verifier_that_cannot_run_is_named_with_exit_code_2(folder, changes, reason):
    write_list(folder, verifier("a"), verifier("b", **changes))
    code, printed = verify(folder)
    assert code == 2 and "not checked: b: " in printed and reason in printed
    assert "3 verifiers: 2 hold, 0 failed, 1 not checked" in printed


@pytest.mark.parametrize("source", [
    "print('ok')", "raise ValueError('broken')", "print('0 checks, 0 failed')", "print('3 checks, 1 failed')",
    "import sys; print('3 checks, 0 failed'); sys.exit(1)", "import sys; print('3 checks, 0 failed'); sys.exit(2)"])
def test_a_verifier_whose_exit_code_and_counts_disagree_checked_nothing(folder, source):
    (folder / "research/check.py").write_text(source)
    outcome = verify_all.run_verifier(verifier("a"), folder)
    assert outcome.verdict == verify_all.UNCHECKED and outcome.lines[0].startswith("exit code ")


def test_what_is_false_outweighs_what_is_not_checked(folder):
    write_json(folder / "research/a.json", {"value": 2})
    write_list(folder, verifier("a"), verifier("b", needs=["nothing_has_this_name"]))
    assert verify(folder)[0] == 1


@pytest.mark.parametrize("content, reason", [
    ("{}", "missing key frozen_without"), ("[", "not strict JSON"),
    ('{"frozen_without": [], "supplement": null, "verifiers": []}', "an empty list checks nothing"),
    ('{"frozen_without": [], "supplement": null, "verifiers": [{"name": "a"}]}', "verifiers[0]: missing key claim"),
])
def test_a_broken_list_of_verifiers_is_named(folder, content, reason):
    (folder / "manifests/verifiers.json").write_text(content)
    code, printed = verify(folder)
    assert code == 2 and "manifests/verifiers.json" in printed and reason in printed


def test_a_folder_that_is_no_supplement_is_refused(tmp_path):
    done = subprocess.run([sys.executable, ROOT / "verify_all.py", tmp_path], capture_output=True, text=True)
    assert done.returncode == 2 and "FOLDER must be the repository or an unpacked supplement" in done.stderr


# ---------------------------------------------------------------------------------- this repository's list


VERIFIERS = verify_all.read_verifiers(ROOT)["verifiers"]
# Verifiers that read no frozen number of their own, or need runs or another package. That of the source exclusion takes
# a minute; test_verify_source_exclusion.py alters the numbers that it derives.
NOT_TRIED = ("frozen files", "supplement v1", "pages", "theorem", "proof", "saved models", "source exclusion")
CLAIMS = {  # frozen file below research/: a number that its verifier derives or holds against another
    "batch_boundaries/accumulation.json": "cases.unequal.by_target",
    "batch_boundaries/batch_note.json": "views.padded.labels.0.1",
    "batch_boundaries/boundaries.json":
        "semantics.independent.exact.gradient_isolated: nonzero gradients towards the first document's embeddings",
    "batch_boundaries/chunking_demo.json": "designs.drop_rest.windows",
    "batch_boundaries/chunking_note.json": "designs.drop_rest.windows",
    "batch_boundaries/collators.json": "cases.10.documents.2.5",
    "batch_boundaries/diagnose_matrix.json": "totals.caught",
    "batch_boundaries/split_demo.json": "documents.train",
    "batch_boundaries/split_wheels.json": "groupings.package.groups.train",
    "batch_boundaries/targets_demo.json": "loaders.best_fit_crop.row_targets.21",
    "confirmation/exclusions_wheels.json": "documents.0",
    "confirmation/protocol_wheels.json": "content.stream.rows",
    "confirmation/seen_wheels.json": "bits_per_byte_minus_baseline.all_rows.random_crop_s43",
    "confirmation/wheels.json": "bits_per_byte_minus_baseline.segmented_s43",
    "independent_replication/record.json": "scores.random_crop_minus_source",
    "matched_training/checkpoints_demo.json": "content.runs.segmented_s43.rescored.nats",
    "matched_training/checkpoints_wheels.json": "content.runs.baseline_s43.rescored.nats",
    "matched_training/curves_demo.json": "runs.baseline_s43.seconds.249",
    "matched_training/curves_wheels.json": "runs.segmented_s44.seconds.11",
    "matched_training/demo.json": "runs.baseline_s43.score.bits_per_byte",
    "matched_training/sweep_wheels.json": "candidates.0.loop_seconds",
    "matched_training/wheels.json": "runs.segmented_s44.seconds.run",
    "prefix_ranking/demo.json": "contrasts.0.subsets_95.1",
    "prefix_ranking/wheels.json": "contrasts.0.subsets_95.1",
    "published_tables/relations.json": "constants.values.kv_heads",
    "published_tables/version_1.json": "groups.confirmation.values.baseline_s43.bpb",
    "published_tables/version_2.json": "groups.census.values.documents",
    "resources/demo.json": "records.trainings.0.seconds.loop",
    "resources/wheels.json": "totals.scorings.confirmation.forward_positions",
    "source_exclusion/demo.json": "buffer_size",
    "source_exclusion/length_histogram_demo.json": "thresholds.0.documents",
    "source_exclusion/length_histogram_wheels.json": "histogram.3.1",
    "source_exclusion/paper_thresholds.json": "thresholds.1.earliest_pass",
    "source_exclusion/permutations_demo.json": "as_stored.arrived_tokens",
    "source_exclusion/permutations_wheels.json": "as_stored.arrived_tokens",
    "source_exclusion/repeated_demo.json": "buffer_size",
    "source_exclusion/repeated_wheels.json": "buffer_size",
    "source_exclusion/served_demo.json": "buffer_size",
    "source_exclusion/served_wheels.json": "buffer_size",
    "source_exclusion/wheels.json": "buffer_size",
    "source_windows/wheels_confirmation.json": "strata.2.eligible",
    "source_windows/wheels_development.json": "position_parts.rows.5.parts.0",
    "token_bytes/demo.json": "streams.scored.supplied_bytes",
    "token_bytes/wheels.json": "score.baseline_s43.nats",
}


def evidence_of(entry):
    return {path.relative_to(ROOT).as_posix() for pattern in entry["evidence"] for path in ROOT.glob(pattern)}


def test_every_verifier_of_the_list_is_a_script_here_with_a_name_and_a_claim_of_its_own():
    assert all((ROOT / entry["command"][0]).is_file() for entry in VERIFIERS)
    for key in ("name", "claim", "command"):
        assert len({str(entry[key]) for entry in VERIFIERS}) == len(VERIFIERS)


def test_every_verifier_script_is_in_the_list():
    scripts = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("research/*/verify_*.py")}
    assert scripts <= {entry["command"][0] for entry in VERIFIERS}


def test_every_frozen_file_but_a_figure_has_a_verifier_besides_its_sha256():
    frozen = {name for name in read_manifest(ROOT / "manifests/frozen.sha256") if not name.endswith(".png")}
    verified = set().union(*(evidence_of(entry) for entry in VERIFIERS if entry["default"]))
    assert sorted(frozen - verified) == []


def test_there_is_a_claim_for_every_frozen_json_file():
    frozen = {name.removeprefix("research/") for name in read_manifest(ROOT / "manifests/frozen.sha256")}
    assert set(CLAIMS) == {name for name in frozen if name.endswith(".json")}


def alter(value, path):
    """Change the number, or the last digit of a number in text, at a dotted path."""
    first, _, rest = path.partition(".")
    key = int(first) if isinstance(value, list) else first
    if rest:
        alter(value[key], rest)
    elif isinstance(value[key], str):
        value[key] = value[key][:-1] + ("1" if value[key][-1] == "3" else "3")
    else:
        value[key] += 1


def copy_of_this_repository(folder):
    """The tracked files of this repository but its supplements, in an empty folder."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in tracked.split("\0"):
        if name and not name.startswith("supplement_v") and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


def claims_apart():
    """(verifier, files to alter at a time): one, or all of a verifier that takes long; its own tests alter each."""
    for entry in VERIFIERS:
        names = [name for name in sorted(evidence_of(entry)) if name.endswith(".json")]
        if entry["default"] and entry["name"] not in NOT_TRIED:
            together = [names] if entry["name"] == "batch boundaries" else [[name] for name in names]
            yield from (pytest.param(entry, part, id=f"{entry['name']}-{part[0]}") for part in together)


@pytest.mark.slow
@pytest.mark.parametrize("entry, names", claims_apart())
def test_a_changed_number_is_found_by_its_verifier(entry, names, tmp_path):
    folder = copy_of_this_repository(tmp_path)
    for name in names:
        content = read_json(folder / name)
        alter(content, CLAIMS[name.removeprefix("research/")])
        write_json(folder / name, content)
    outcome = verify_all.run_verifier(entry, folder)
    assert outcome.verdict == verify_all.FALSE, outcome
