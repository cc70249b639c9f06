"""A supplement has the same bytes everywhere, is complete or not made, never overwritten, and a later one only adds."""

import gzip
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import check_manifests
import freeze_supplement
from bundles import archive as supplements
from bundles import contents as bundle_contents
from evidence import InputError, read_json, sha256_bytes, write_json
from files import sha256_file
from manifest import read_manifest
from tiny import disks

ROOT = Path(__file__).resolve().parents[1]
CHECKER = """\
import json, sys
holds = json.load(open("research/a/one.json"))["value"] == 1
print("ok   one" if holds else "FAIL one: value is not 1")
print(f"1 checks, {0 if holds else 1} failed")
sys.exit(0 if holds else 1)
"""
FILES = {"research/a/check.py": CHECKER, "research/a/one.json": '{"value": 1}\n', "loaders/one.py": "pass\n",
         "loaders/one.npy": "\0\1"}


def contents(**changes):
    return {"about": "A small one.", "errata": [], "limits": [],
            "contents": [{"what": "loaders", "files": ["loaders/*"]}, {"what": "evidence", "files": ["research/*/*"]}],
            "verifiers": ["one"]} | changes


def verifier(name, question, evidence):
    return {"name": name, "claim": f"The value of {question} holds.", "command": [f"research/{question}/check.py"],
            "needs": [], "data": [], "default": True, "seconds": 1, "evidence": [f"research/{question}/{evidence}"]}


def write_verifiers(root, *verifiers):
    write_json(root / "manifests/verifiers.json", {"frozen_without": [], "supplement": None, "verifiers": verifiers})


def write_files(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.fixture
def repository(tmp_path):
    """A small repository with one piece of evidence and its verifier, described by manifests/supplement_v1.json."""
    root = tmp_path / "repository"
    write_files(root, FILES)
    for name in bundle_contents.EACH:
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    write_verifiers(root, verifier("one", "a", "*.json"), verifier("two", "b", "two.json"),
                    verifier("three", "c", "one.json"))
    write_json(root / "manifests/supplement_v1.json", contents())
    return root


def freeze(root, version="v1", *arguments):
    return freeze_supplement.main([version, "--root", str(root), *map(str, arguments)])


def tree(place):
    """{relative path: bytes} of every file below a folder."""
    return supplements.read_folder(place)


def archive(place, version="v1"):
    return (place / f"dist/supplement_{version}.tar.gz").read_bytes()


# ------------------------------------------------------------------------------------- what is frozen here


def test_every_supplement_of_this_repository_is_as_it_was_frozen():
    folders = {path.name for path in ROOT.glob("supplement_v*") if path.is_dir()}
    recorded = {path.stem for path in (ROOT / "manifests").glob("supplement_v*.sha256")}
    assert folders == recorded
    assert {name: supplements.frozen_findings(ROOT, name) for name in recorded} == {name: [] for name in recorded}


# -------------------------------------------------------------------------------------------- the archive


def test_the_folder_lists_every_file_and_the_archive_holds_the_folder(repository, capfd):
    assert freeze(repository) == 0
    folder = repository / "supplement_v1"
    copied = {*FILES, *bundle_contents.EACH}
    assert set(tree(folder)) == copied | {"README.md", "manifests/verifiers.json", "manifest.sha256"}
    assert all((folder / name).read_bytes() == (repository / name).read_bytes() for name in copied)
    assert read_manifest(folder / "manifest.sha256") == {
        name: sha256_bytes(data) for name, data in tree(folder).items() if name != "manifest.sha256"}
    with tarfile.open(fileobj=io.BytesIO(archive(repository))) as tar:
        members = tar.getmembers()
        held = {member.name.removeprefix("supplement_v1/"): tar.extractfile(member).read() for member in members}
    assert held == tree(folder) and [m.name for m in members] == sorted(m.name for m in members)
    assert {(m.mode, m.uid, m.gid, m.uname, m.gname, m.mtime, m.isreg()) for m in members} == {
        (0o644, 0, 0, "", "", supplements.MODIFIED, True)}
    digest = sha256_bytes(archive(repository))
    assert read_manifest(repository / "manifests/supplement_v1.sha256") == {
        "dist/supplement_v1.tar.gz": digest, "supplement_v1/manifest.sha256": sha256_file(folder / "manifest.sha256")}
    assert digest in capfd.readouterr().out


@pytest.mark.skipif(shutil.which("tar") is None, reason="needs the tar program")
def test_the_archive_inside_is_what_gnu_tar_writes_of_the_same_files(repository, tmp_path):
    said = subprocess.run(["tar", "--version"], capture_output=True, text=True).stdout
    if "GNU tar" not in said:
        pytest.skip("needs GNU tar")
    freeze(repository)
    names = sorted(f"supplement_v1/{name}" for name in tree(repository / "supplement_v1"))
    command = ["tar", "-cf", str(tmp_path / "a.tar"), "--format=ustar", f"--mtime=@{supplements.MODIFIED}", "--owner=0",
               "--group=0", "--numeric-owner", "--", *names]
    subprocess.run(command, cwd=repository, check=True)
    assert gzip.decompress(archive(repository)) == (tmp_path / "a.tar").read_bytes()


def test_the_bytes_are_the_same_on_every_machine_as_on_the_first():
    made = supplements.archive_bytes({"b/é.txt": b"hello\n", "a.bin": bytes(range(256)) * 300}, "supplement_v0")
    assert sha256_bytes(made) == "bce18a2afb5cf09c7762d46fd1d46d88c6eddbd999eba009a43356d6647a9366"


def test_a_name_too_long_for_the_format_is_refused():
    supplements.archive_bytes({"n" * 98: b""}, "s")
    with pytest.raises(InputError, match="101 bytes; a name in the archive has at most 100"):
        supplements.archive_bytes({"n" * 99: b""}, "s")


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 200_000])
def test_stored_gzip_is_read_back_by_zlib(size):
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    made = supplements.gzip_stored(data)
    assert gzip.decompress(made) == data and len(made) == size + 18 + 5 * max(1, -(-size // 65_535))


def test_another_time_zone_umask_locale_user_and_file_order_give_the_same_bytes(repository, tmp_path):
    assert freeze(repository, "v1", "--out", tmp_path / "one") == 0
    other = tmp_path / "elsewhere"
    for path in sorted(repository.rglob("*"), reverse=True):  # created in another order, with other times and modes
        if path.is_file():
            copy = other / path.relative_to(repository)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
            copy.chmod(0o600)
            os.utime(copy, (86_400, 86_400))
    (tmp_path / "home").mkdir()
    strange = {"TZ": "Pacific/Chatham", "LC_ALL": "tr_TR.UTF-8", "LANG": "C", "USER": "somebody", "LOGNAME": "somebody",
               "HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"], "PYTHONHASHSEED": "5"}
    command = [sys.executable, ROOT / "freeze_supplement.py", "v1", "--root", other, "--out", tmp_path / "two"]
    subprocess.run(command, check=True, env=strange, umask=0o077, cwd="/", stdout=subprocess.DEVNULL)
    assert archive(tmp_path / "one") == archive(tmp_path / "two")
    assert tree(tmp_path / "one/supplement_v1") == tree(tmp_path / "two/supplement_v1")


@pytest.mark.skipif(shutil.which("tar") is None, reason="needs the tar program")
def test_the_tar_program_unpacks_it_without_a_word(repository, tmp_path):
    freeze(repository)
    (tmp_path / "unpacked").mkdir()
    command = ["tar", "-xzf", str(repository / "dist/supplement_v1.tar.gz")]
    done = subprocess.run(command, cwd=tmp_path / "unpacked", capture_output=True, text=True, check=True)
    assert done.stderr == "" and tree(tmp_path / "unpacked/supplement_v1") == tree(repository / "supplement_v1")


def test_the_archive_is_made_again_from_the_frozen_folder_alone(repository):
    freeze(repository)
    first = archive(repository)
    (repository / "dist/supplement_v1.tar.gz").unlink()
    (repository / "loaders/one.py").write_text("the repository has moved on\n")
    assert freeze(repository, "v1", "--rebuild") == 0 and archive(repository) == first
    (repository / "supplement_v1/loaders/one.py").write_text("pass \n")
    with pytest.raises(InputError, match="loaders/one.py: changed"):
        freeze(repository, "v1", "--rebuild")


# ----------------------------------------------------------------------------------------------- refusals


def refused(root, match, *arguments):
    """A freeze is refused with these words, and nothing is written."""
    before = tree(root)
    with pytest.raises(InputError, match=match):
        freeze(root, *(arguments or ("v1",)))
    assert tree(root) == before


@pytest.mark.parametrize("kept, match", [
    ("supplement_v1", "supplement_v1: exist without .*supplement_v1.sha256, .* delete what it left .* restore it"),
    ("dist", "supplement_v1.tar.gz: exist without"), ("manifests/supplement_v1.sha256", "never overwritten"),
])
def test_what_is_frozen_is_not_overwritten(repository, kept, match):
    freeze(repository)
    for path in ("supplement_v1", "dist", "manifests/supplement_v1.sha256"):
        if path != kept:
            place = repository / path
            shutil.rmtree(place) if place.is_dir() else place.unlink()
    refused(repository, match)


@pytest.mark.parametrize("last, left", [
    ("supplement_v1.tar.gz", ["supplement_v1"]),
    ("supplement_v1.sha256", ["supplement_v1", "dist/supplement_v1.tar.gz"]),
])
def test_what_a_killed_freeze_left_is_named_and_once_deleted_the_next_call_freezes(repository, last, left, tmp_path):
    freeze(repository, "v1", "--out", tmp_path / "undisturbed")
    code = (f"import os, sys; sys.path.insert(0, {str(ROOT)!r}); import freeze_supplement; "
            "write = freeze_supplement.write_atomic\n"
            f"def write_until(path, data): os.kill(os.getpid(), 9) if path.name == {last!r} else write(path, data)\n"
            "freeze_supplement.write_atomic = write_until; freeze_supplement.main(sys.argv[1:])")
    done = subprocess.run([sys.executable, "-c", code, "v1", "--root", repository], stdout=subprocess.DEVNULL)
    assert done.returncode == -signal.SIGKILL
    named = " and ".join(str(repository / name) for name in left)
    refused(repository, f"{named}: exist without .*, delete what it left")
    for path in [repository / name for name in left]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert freeze(repository) == 0 and archive(repository) == archive(tmp_path / "undisturbed")


def interrupted(monkeypatch, last):
    """The write of the file of this name is interrupted when it is done."""
    write = freeze_supplement.write_atomic

    def write_until(path, data):
        write(path, data)
        if path.name == last:
            raise KeyboardInterrupt

    monkeypatch.setattr(freeze_supplement, "write_atomic", write_until)


@pytest.mark.parametrize("size", [64_000, 128_000])
def test_a_full_disk_is_named_with_what_helps_and_nothing_is_left(repository, tmp_path, size):
    """The smaller disk has no room for the folder, the larger one none for the archive."""
    with disks.small_disk(tmp_path / "disk", size) as disk:
        with pytest.raises(InputError, match=f"{disk}/.*: No space left on device; make room"):
            freeze(repository, "v1", "--out", disk)
        assert [path for path in disk.rglob("*") if path.is_file() or "supplement" in path.name] == []
    assert freeze(repository) == 0


def test_a_folder_that_is_read_only_is_named(repository, tmp_path):
    (tmp_path / "out").mkdir()
    with disks.read_only(tmp_path / "out"), pytest.raises(InputError, match="out/.*read-only; name a folder"):
        freeze(repository, "v1", "--out", tmp_path / "out")


@pytest.mark.parametrize("last", ["one.json", "supplement_v1.tar.gz", "supplement_v1.sha256"])
def test_an_interrupted_freeze_leaves_nothing(repository, monkeypatch, last):
    before = tree(repository)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupted(patch, last)
        freeze(repository)
    assert tree(repository) == before and not list(repository.glob("*supplement_v*")) and freeze(repository) == 0


def test_files_that_cannot_grow_are_as_a_full_disk(repository):
    """A real limit, under the archive's size and over that of each file in it."""
    before = tree(repository)
    limit = 2 * max(map(len, before.values()))
    command = [sys.executable, "-B", ROOT / "freeze_supplement.py", "v1", "--root", repository]
    done = subprocess.run(command, capture_output=True, text=True,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and tree(repository) == before
    assert f"{repository / 'dist/supplement_v1.tar.gz'}: File too large; make room" in done.stderr
    freeze(repository)
    assert len(archive(repository)) > limit


@pytest.mark.parametrize("name, target", [
    ("loaders/two.py", "one.py"), ("loaders/gone.py", "nowhere"), ("research/b", "a"), ("LICENSE", "evidence.py")])
def test_linked_files_are_refused_by_name(repository, name, target):
    (repository / name).unlink(missing_ok=True)
    (repository / name).symlink_to(target)
    refused(repository, f"symbolic links, or in linked folders: {name}(/check.py, {name}/one.json)?; put")


def test_above_25_million_bytes_is_refused_and_the_largest_files_are_named(repository, monkeypatch):
    assert freeze_supplement.LIMIT == 25_000_000
    (repository / "loaders/one.npy").write_bytes(bytes(freeze_supplement.LIMIT))
    refused(repository, r"allowed are 25,000,000; the largest: loaders/one.npy 25,000,000")


@pytest.mark.parametrize("name, match", [
    ("loaders", r"no loaders/\*"), ("research/a/one.json", r"one: no research/a/\*.json"),
    ("research/a/check.py", "one: no research/a/check.py")])
def test_a_pattern_or_verifier_without_files_is_refused_or_left_out_and_named(repository, name, match, capfd):
    shutil.rmtree(repository / name) if (repository / name).is_dir() else (repository / name).unlink()
    refused(repository, match)
    if name != "loaders":
        refused(repository, "verify_all.py in the new supplement ended with exit code 2", "v1", "--incomplete")
    else:
        assert freeze(repository, "v1", "--incomplete") == 0
        folder = repository / "supplement_v1"
        assert read_json(folder / "manifests/verifiers.json")["frozen_without"] == ["loaders/*: no such files"]
        assert "* loaders/*: no such files" in (folder / "README.md").read_text()
        assert "frozen without loaders/*: no such files" in capfd.readouterr().out


def test_evidence_that_its_own_verifier_finds_false_is_not_frozen(repository):
    write_json(repository / "research/a/one.json", {"value": 2})
    refused(repository, "exit code 1; nothing was frozen")


def test_names_that_differ_only_in_case_are_refused(repository):
    (repository / "loaders/ONE.py").write_text("")
    if len(list((repository / "loaders").iterdir())) < 3:
        pytest.skip("needs a file system that tells case apart")
    refused(repository, "'loaders/one.py': differs only in case from 'loaders/ONE.py'")


@pytest.mark.parametrize("changes, match", [({"extra": 1}, "unknown key extra"),
                                            ({"verifiers": ["four"]}, "no verifier four; there are one, two, three")])
def test_a_table_of_contents_with_an_unknown_key_or_verifier_is_refused(repository, changes, match):
    write_json(repository / "manifests/supplement_v1.json", contents(**changes))
    refused(repository, match)


@pytest.mark.parametrize("version", ["1", "v0", "v01", "../v1", "v1 "])
def test_a_version_is_v_and_a_number(repository, version):
    with pytest.raises(SystemExit):
        freeze(repository, version)


# ---------------------------------------------------------------------------------- found by check_manifests


def damage(repository, name):
    path = repository / name
    path.write_bytes(path.read_bytes()[:-1] + b"?")


@pytest.mark.parametrize("edit, finding", [
    (lambda root: damage(root, "supplement_v1/loaders/one.py"), "supplement_v1/loaders/one.py: changed"),
    (lambda root: damage(root, "dist/supplement_v1.tar.gz"), "supplement_v1.tar.gz: changed"),
    (lambda root: damage(root, "supplement_v1/manifest.sha256"), "supplement_v1/manifest.sha256: changed"),
    (lambda root: (root / "supplement_v1/LICENSE").unlink(), "supplement_v1/LICENSE: missing"),
    (lambda root: (root / "supplement_v1/more").write_text(""), "supplement_v1/more: extra"),
    (lambda root: shutil.rmtree(root / "supplement_v1"), "supplement_v1/manifest.sha256: missing"),
])
def test_check_manifests_names_a_change_of_a_frozen_supplement(repository, edit, finding, capsys):
    freeze(repository)
    check_manifests.main(["--root", str(repository), "--freeze"])
    assert check_manifests.main(["--root", str(repository)]) == 0
    shutil.rmtree(repository / "loaders")  # the repository moves on
    assert check_manifests.main(["--root", str(repository)]) == 0
    edit(repository)
    capsys.readouterr()
    assert check_manifests.main(["--root", str(repository)]) == 1 and finding in capsys.readouterr().out


# ------------------------------------------------------------------------------------------- a second version


ERRATUM = {"file": "research/a/one.json", "wrong": "read from another column", "replaced_by": "research/b/two.json"}


@pytest.fixture
def extended(repository):
    """The repository with v1 frozen, new evidence, and a description of v2 that also matches what v1 holds."""
    freeze(repository)
    write_files(repository, {"research/b/two.json": '{"value": 2}\n', "research/b/check.py": CHECKER.replace(
        "a/one", "b/two").replace("== 1", "== 2")})
    described = contents(verifiers=["two"], errata=[ERRATUM])
    write_json(repository / "manifests/supplement_v2.json", described)
    return repository


def test_version_2_names_version_1_by_hash_and_holds_only_what_it_lacks(extended):
    before = tree(extended / "supplement_v1")
    assert freeze(extended, "v2") == 0
    folder = extended / "supplement_v2"
    evidence = {name for name in tree(folder) if bundle_contents.is_evidence(name)}
    assert evidence == {"research/b/two.json"} and {"EXTENDS", "errata.json", "loaders/one.py"} <= set(tree(folder))
    assert read_manifest(folder / "EXTENDS") == {
        "supplement_v1.tar.gz": sha256_bytes(archive(extended)),
        "supplement_v1/manifest.sha256": sha256_file(extended / "supplement_v1/manifest.sha256")}
    assert read_json(folder / "errata.json") == [ERRATUM]
    page = (folder / "README.md").read_text()
    assert sha256_bytes(archive(extended)) in page and ERRATUM["wrong"] in page and "The value of b holds." in page
    assert tree(extended / "supplement_v1") == before


def test_version_3_names_both(extended):
    freeze(extended, "v2")
    write_files(extended, {"research/c/check.py": CHECKER.replace("a/one", "c/one"),
                           "research/c/one.json": '{"value": 1}\n'})
    write_json(extended / "manifests/supplement_v3.json", contents(verifiers=["three"]))
    assert freeze(extended, "v3") == 0
    folder = extended / "supplement_v3"
    assert len(read_manifest(folder / "EXTENDS")) == 4 and not (folder / "research/b/two.json").exists()


@pytest.mark.parametrize("edit, match", [
    (lambda root: shutil.rmtree(root / "supplement_v1"), "supplement_v1/manifest.sha256: missing"),
    (lambda root: (root / "manifests/supplement_v1.sha256").unlink(), "not here as it was frozen: no "),
    (lambda root: damage(root, "supplement_v1/loaders/one.py"), "loaders/one.py: changed"),
    (lambda root: (root / "supplement_v1/more").write_text(""), "more: extra"),
    (lambda root: damage(root, "dist/supplement_v1.tar.gz"), "supplement_v1.tar.gz: changed"),
])
def test_version_2_is_refused_when_version_1_is_absent_or_changed(extended, edit, match):
    edit(extended)
    refused(extended, match, "v2")


def with_errata(root, errata):
    path = root / "manifests/supplement_v2.json"
    path.write_text(json.dumps(read_json(path) | {"errata": errata}))


def test_evidence_that_differs_from_version_1_needs_an_erratum(extended):
    write_files(extended, {"research/a/one.json": '{"value": 1.0}\n'})
    with_errata(extended, [])
    refused(extended, "research/a/one.json: differs from the version before", "v2")
    with_errata(extended, [ERRATUM | {"replaced_by": "research/a/one.json"}])
    assert freeze(extended, "v2") == 0
    assert (extended / "supplement_v2/research/a/one.json").read_text() == '{"value": 1.0}\n'
    assert (extended / "supplement_v1/research/a/one.json").read_text() == '{"value": 1}\n'


def test_code_and_pages_may_differ_from_version_1_without_an_erratum(extended):
    write_files(extended, {"loaders/one.py": "print()\n"})
    assert freeze(extended, "v2") == 0
    assert (extended / "supplement_v2/loaders/one.py").read_text() == "print()\n"


@pytest.mark.parametrize("change, match", [
    ({"file": "loaders/one.py"}, "loaders/one.py: no evidence of an earlier version"),
    ({"replaced_by": "loaders/none.py"}, "replaced_by loaders/none.py: not in this supplement"),
    ({"replaced_by": "research/a/one.json"}, "replaced_by research/a/one.json: not in this supplement"),
    ({"why": ""}, "unknown key why"),
])
def test_an_erratum_names_a_file_before_and_one_that_is_here(extended, change, match):
    with_errata(extended, [ERRATUM | change])
    refused(extended, match, "v2")


def test_a_version_that_adds_nothing_is_refused(extended):
    shutil.rmtree(extended / "research/b")
    refused(extended, "nothing here that the versions before lack", "v2")
