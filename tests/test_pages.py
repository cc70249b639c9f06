"""Numbers on pages stand in generated blocks; a block that the evidence does not give is found and named."""

import re
import sys
from types import SimpleNamespace

import pytest

from evidence import InputError, read_json, write_json
from research import pages

PAGE = """# Title

<!-- block tiny.table -->
| n |
|---|
| 7 |
<!-- end tiny.table -->

It is <!-- block tiny.n -->7<!-- end tiny.n -->.
"""


def table(root):
    return f"| n |\n|---|\n| {number(root)} |"


def number(root):
    return str(read_json(root / "research/tiny/tiny.json")["n"])


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A repository with one page of two blocks, which its evidence gives."""
    write_json(tmp_path / "research/tiny/tiny.json", {"n": 7})
    (tmp_path / "README.md").write_text(PAGE)
    monkeypatch.setattr(pages, "read_blocks", lambda root: {"tiny.table": table, "tiny.n": number})
    return tmp_path


def check(root, capsys):
    """(exit code, the lines that fail)."""
    code = pages.main(["--root", str(root), "--check"])
    return code, [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]


def test_the_pages_of_this_repository_are_what_the_generator_writes(capsys):
    assert check(pages.ROOT, capsys) == (0, [])


def test_a_number_changed_on_the_page_is_named_with_its_block(root, capsys):
    assert check(root, capsys) == (0, [])
    for name, old, new in (("tiny.table", "| 7 |", "| 8 |"), ("tiny.n", "-->7<!--", "-->8<!--")):
        (root / "README.md").write_text(PAGE.replace(old, new))
        code, failed = check(root, capsys)
        assert code == 1 and len(failed) == 1 and f"README.md: {name}" in failed[0]


def test_a_number_changed_in_the_evidence_fails_until_the_pages_are_written_again(root, capsys):
    write_json(root / "research/tiny/tiny.json", {"n": 8})
    code, failed = check(root, capsys)
    assert code == 1 and len(failed) == 2
    assert pages.main(["--root", str(root)]) == 0
    assert (root / "README.md").read_text() == PAGE.replace("7", "8")
    assert check(root, capsys) == (0, [])


def test_a_block_that_no_page_uses_fails(root, capsys):
    (root / "README.md").write_text(PAGE.partition("\n\nIt is")[0])
    code, failed = check(root, capsys)
    assert code == 1 and "tiny.n" in failed[0]


@pytest.mark.parametrize("text, named", [
    ("a\n<!-- block tiny.n -->7", "tiny.n is not closed"),
    ("a\n<!-- end tiny.n -->", "README.md:2"),
    ("<!-- block tiny.n -->\n<!-- block tiny.table -->", "README.md:2"),
    ("<!-- block tiny.n -->7<!-- end tiny.table -->", "README.md:1"),
    ("<!-- block tiny.other -->7<!-- end tiny.other -->", "tiny.other"),
])
def test_a_wrong_marker_is_named_by_file_and_line_and_nothing_is_written(root, text, named):
    (root / "README.md").write_text(text)
    for option in ([], ["--check"]):
        with pytest.raises(InputError, match=named):
            pages.main(["--root", str(root), *option])
    assert (root / "README.md").read_text() == text


def test_two_questions_may_not_use_one_name(tmp_path, monkeypatch):
    for question in ("one", "two"):
        (tmp_path / "research" / question).mkdir(parents=True)
        (tmp_path / "research" / question / "blocks.py").write_text("")
        monkeypatch.setitem(sys.modules, f"research.{question}.blocks", SimpleNamespace(BLOCKS={"same.name": number}))
    with pytest.raises(InputError, match="two/blocks.py: same.name"):
        pages.read_blocks(tmp_path)


def page_files():
    """Every page of the repository, as a path; supplements have pages of their own."""
    return sorted({path for pattern in pages.PAGES for path in pages.ROOT.glob(pattern)})


@pytest.mark.parametrize("path", page_files(), ids=lambda path: path.relative_to(pages.ROOT).as_posix())
def test_every_file_link_and_make_target_on_a_page_exists(path):
    text = path.read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("http")]
    assert [link for link in links if link and not (path.parent / link).exists()] == []
    scripts = re.findall(r"python3? ((?:[\w-]+/)*[\w-]+\.py)", text)
    assert [name for name in scripts if not (pages.ROOT / name).exists()] == []
    targets = re.findall(r"^([a-z-]+):.*##", (pages.ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"(?:^    |`)make ([a-z-]+)", text, re.MULTILINE)) <= set(targets)


def test_the_readme_fits_its_first_screens():
    assert len((pages.ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 130
