"""The attributed record agrees with the paper's printed numbers, and one changed digit of it is found."""

import copy
import shutil

import pytest

from evidence import InputError, read_json, write_json
from research.independent_replication import verify_independent_replication as verifier

TABLES = "research/published_tables/version_2.json"
WORDS = ("address", "author", "place", "cited_by", "time", "crop_policy", "outcome", "reported_checks")


@pytest.fixture
def root(tmp_path):
    """A root that holds the record and the paper's numbers."""
    for name in (f"{verifier.QUESTION}/record.json", TABLES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(verifier.ROOT / name, tmp_path / name)
    return tmp_path


def verify(root, capsys):
    """(exit code, the lines that fail)."""
    code = verifier.main(["--root", str(root)])
    return code, [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]


def strings(value, path=()):
    """Every path to a string of a JSON object, except the words that no number depends on."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in WORDS:
                yield from strings(item, (*path, key))


def test_the_record_holds_with_the_papers_numbers_and_alone(root, capsys):
    assert verify(root, capsys) == (0, [])
    (root / TABLES).unlink()
    assert verify(root, capsys) == (0, [])


def test_any_changed_digit_or_name_of_the_record_is_found(root, capsys):
    path = root / verifier.QUESTION / "record.json"
    good = read_json(path)
    places = list(strings(good))
    assert len(places) > 20
    for place in places:
        changed = copy.deepcopy(good)
        *above, last = place
        holder = changed
        for key in above:
            holder = holder[key]
        holder[last] = holder[last][:-1] + ("7" if holder[last][-1] != "7" else "3")
        write_json(path, changed)
        code, failed = verify(root, capsys)
        assert code == 1 and failed, place


def test_a_missing_key_is_named(root):
    write_json(root / verifier.QUESTION / "record.json", {"status": verifier.STATUS})
    with pytest.raises(InputError, match="record.json: missing key costs"):
        verifier.main(["--root", str(root)])
