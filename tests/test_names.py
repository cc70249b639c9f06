"""Names that some system cannot hold, or not side by side, are found, each by its own cause; sound ones are not."""

import re
from pathlib import PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundles.names import LONGEST, name_findings
from manifest import read_manifest
from tiny.corpus import ROOT


def test_every_list_in_the_repository_is_portable():
    lists = sorted((ROOT / "manifests").glob("*.sha256"))
    assert len(lists) >= 3 and [name_findings(read_manifest(path)) for path in lists] == [[]] * len(lists)


@pytest.mark.parametrize("name, fault", [
    ("/a", "it is absolute"), ("", "unsafe path"), ("a/../b", "unsafe path"), ("..", "unsafe path"),
    ("a//b", "unsafe path"), ("./a", "unsafe path"), ("a/", "unsafe path"), ("-", "a dash"), ("d/-x", "a dash"),
    ("a.", "a dot"), ("a..", "a dot"), ("d./a", "a dot"),
    ("d/aux.json", "a device"), ("Lpt9", "a device"), ("C:a", "characters"), ("a b", "characters"),
    ("a\n", "characters"), ("\ufeffa", "characters"), ("ß", "characters"), ("/" + "a" * 119, "it is absolute"),
])
def test_a_name_that_some_system_cannot_hold_has_one_finding(name, fault):
    findings = name_findings([name])
    assert len(findings) == 1 and findings[0].startswith(f"{name!r}: ") and fault in findings[0]


@pytest.mark.parametrize("names, findings", [
    (["a", "a"], ["'a': occurs twice"]),
    (["A", "a"], ["'a': differs only in case from 'A'"]),
    (["A/x", "a/y"], ["'a': differs only in case from 'A'"]),
    (["A/x", "a/x"], ["'a': differs only in case from 'A'", "'a/x': differs only in case from 'A/x'"]),
    (["a", "a/b"], ["'a': both a file and a folder"]),
    (["a" * (LONGEST + 1)], [f"'{'a' * 201}': 201 characters, over 200"]),
    (["a/b", "a/c", "ab", ".a", "a.b", "a-b", "a+b", "_", "con1", "a" * LONGEST], []),
])
def test_names_that_cannot_stand_side_by_side_are_found(names, findings):
    assert name_findings(names) == findings


@given(st.lists(st.text("aAbB./-: \\é", max_size=6) | st.sampled_from(["nul", "COM1.x", "aux/a"]), max_size=4))
def test_what_is_passed_is_distinct_on_a_system_without_case_and_safe_on_windows(names):
    if name_findings(names):
        return
    assert len({name.lower() for name in names}) == len(names)
    for name in names:
        path = PureWindowsPath(name)
        assert not path.is_reserved() and not path.drive and not path.root and ".." not in path.parts
        assert path.as_posix() == name and re.fullmatch(r"[!-~]+", name)
