"""A list that we write is read by `sha256sum -c` and `shasum -a 256 -c`, one that they write by us; odd names included.

What a reader of evidence.py's lists must find in a tree is counted here beyond the plain cases of test_evidence.py.
"""

import hashlib
import os
import shutil
import subprocess

import pytest

import manifest
from evidence import InputError

TOOLS = [["sha256sum"], ["shasum", "-a", "256"]]
ODD = ["-x", "--help", " lead", "trail ", "a  b", "*star", "#c", "é", "e\u0301", "日本", "~", "%41", "$HOME", "a'b\"c",
       "deep/-", "deep/er/ x"]
REFUSED = ["a\nb", "a\rb", "tail\r", "a\tb", "a\\b", "\\", "a\0b", "nbsp\u00a0", "\ufefflead", "line\u2028", "\udcff",
           "", "..", "../a", "a/../b", "/a", ".", "-", "./a", "a//b", "a/"]


def available(tool):
    if not shutil.which(tool[0]):
        pytest.skip(f"{tool[0]} is not on this machine")
    return tool


def lay_out(root, names):
    """Files that hold their own names, and their digests."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(os.fsencode(name))
    return {name: hashlib.sha256(os.fsencode(name)).hexdigest() for name in names}


@pytest.fixture
def odd(tmp_path):
    return tmp_path / "tree", lay_out(tmp_path / "tree", ODD)


def test_odd_names_come_back_as_they_were(odd, tmp_path):
    root, digests = odd
    (tmp_path / "list").write_bytes(manifest.format_manifest(digests))
    assert manifest.read_manifest(tmp_path / "list") == digests
    assert manifest.manifest_findings(digests, root) == []


@pytest.mark.parametrize("tool", TOOLS)
def test_odd_names_are_checked_by_other_tools_and_a_change_is_seen(odd, tmp_path, tool):
    root, digests = odd
    (tmp_path / "list").write_bytes(manifest.format_manifest(digests))
    command = [*available(tool), "-c", "../list"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and done.stdout.count(": OK") == len(ODD)
    (root / "-x").write_bytes(b"changed")
    assert subprocess.run(command, cwd=root, capture_output=True, stdin=subprocess.DEVNULL).returncode == 1


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("option", ["-b", "-t"])
def test_lists_that_other_tools_write_are_read_as_they_are(odd, tmp_path, tool, option):
    root, digests = odd
    done = subprocess.run([*available(tool), option, "--", *digests], cwd=root, capture_output=True)
    (tmp_path / "list").write_bytes(done.stdout)
    assert manifest.read_manifest(tmp_path / "list") == digests


@pytest.mark.parametrize("name", ["a\nb", "a\\b"])
def test_names_that_other_tools_escape_are_refused_by_their_line(tmp_path, name):
    lay_out(tmp_path, ["sound", name])
    done = subprocess.run([*available(TOOLS[0]), "sound", name], cwd=tmp_path, capture_output=True)
    (tmp_path / "list").write_bytes(done.stdout)
    with pytest.raises(InputError, match=r"list:2: expected 64 hex digits.*found '\\"):
        manifest.read_manifest(tmp_path / "list")


@pytest.mark.parametrize("name", REFUSED)
def test_a_name_that_a_list_cannot_carry_is_refused_before_anything_is_written(name):
    with pytest.raises(InputError, match="unsafe path") as caught:
        manifest.format_manifest({"sound": "0" * 64, name: "0" * 64})
    assert str(caught.value).isprintable()


def test_a_list_written_where_lines_end_in_crlf_has_none():
    data = manifest.format_manifest({"b": "1" * 64, "a": "0" * 64})
    assert data == b"0" * 64 + b"  a\n" + b"1" * 64 + b"  b\n"


@pytest.mark.parametrize("lines, reason", [
    (b"\n\r\n", "an empty list"), (b"\xef\xbb\xbf", "an empty list"), (b"\xff" * 64 + b"  a\n", "not UTF-8"),
    (b"0" * 64 + b"  \n", ":1: unsafe path ''"), (b"0" * 64 + b"\n", ":1: expected 64 hex"),
    (b"# names\n", ":1: expected 64 hex"), (b"0" * 64 + b"  a\r" + b"0" * 64 + b"  b\n", ":1: unsafe path"),
    (b"0" * 128 + b"  a\n", ":1: expected 64 hex"),
    (b"0" * 64 + b"  *list\n" + b"0" * 64 + b" *list\n", ":2: the list names"),
])
def test_a_list_that_cannot_be_what_it_says_is_refused_by_its_own_cause(tmp_path, lines, reason):
    (tmp_path / "list").write_bytes(lines)
    with pytest.raises(InputError, match=f"list.*{reason}"):
        manifest.read_manifest(tmp_path / "list")


# ------------------------------------------------------------------------------------------- findings


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    return root, lay_out(root, ["a.txt", "deep/b.txt", "deep/c.txt"])


def make_link(path, target):
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize("change, findings", [
    (lambda root: make_link(root / "a.txt", "deep/b.txt"), ["a.txt: symlink"]),
    (lambda root: make_link(root / "a.txt", "nowhere"), ["a.txt: symlink"]),
    (lambda root: make_link(root / "more", "a.txt"), ["more: extra"]),
    (lambda root: make_link(root / "more", "deep"), ["more: extra"]),
    (lambda root: make_link(root / "more", "nowhere"), ["more: extra"]),
    (lambda root: (root / ".hidden").touch(), [".hidden: extra"]),
    (lambda root: os.mkfifo(root / "pipe"), ["pipe: extra"]),
    (lambda root: (root / "A.txt").touch(), ["A.txt: extra"]),
    (lambda root: ((root / "a.txt").unlink(), (root / "a.txt").mkdir()), ["a.txt: missing"]),
    (lambda root: (shutil.rmtree(root / "deep"), (root / "deep").touch()),
     ["deep/b.txt: missing", "deep/c.txt: missing", "deep: extra"]),
    (lambda root: (root / "empty").mkdir(), []),
])
def test_what_is_not_the_listed_file_is_found(tree, change, findings):
    root, digests = tree
    change(root)
    assert manifest.manifest_findings(digests, root) == findings


def test_a_linked_folder_is_found_for_every_file_in_it_although_the_bytes_agree(tree):
    root, digests = tree
    (root / "deep").rename(root.parent / "outside")
    make_link(root / "deep", root.parent / "outside")
    assert manifest.manifest_findings(digests, root) == ["deep/b.txt: symlink", "deep/c.txt: symlink", "deep: extra"]


def test_a_root_that_is_reached_by_a_link_or_relatively_is_no_finding(tree, monkeypatch):
    root, digests = tree
    make_link(root.parent / "alias", root)
    assert manifest.manifest_findings(digests, root.parent / "alias") == []
    monkeypatch.chdir(root)
    assert manifest.manifest_findings(digests, ".") == []


def test_all_findings_are_told_at_once(tree):
    root, digests = tree
    (root / "a.txt").write_text("x")
    (root / "deep/b.txt").unlink()
    (root / "d").touch()
    found = [finding.split(":")[1] for finding in manifest.manifest_findings(digests, root)]
    assert found == [" changed", " missing", " extra"]
