"""The paper's printed numbers: each is held by the relations that read it, and the lists of what is not are exact."""

import functools
import json
import operator
import random
import re
import shutil
from collections import defaultdict
from fnmatch import fnmatchcase

import pytest

from evidence import InputError, canonical_json
from research.published_tables import formulas, printed
from research.published_tables import verify_published_tables as verifier

HERE = verifier.ROOT / printed.QUESTION
FILES = ("relations.json", "version_1.json", "version_2.json")
STEPS = (1, 2, 3, *(10**power for power in range(1, 13)))


@pytest.fixture(scope="module")
def loaded():
    """(relations, printed strings and identifiers by version, ranges by version)."""
    versions, relations, numbers = printed.read_all(HERE)
    return relations, versions, numbers


@pytest.fixture
def copied(tmp_path):
    """The folder of the question in a root of its own, with the three files, to be damaged."""
    folder = tmp_path / printed.QUESTION
    folder.mkdir(parents=True)
    for name in FILES:
        shutil.copy(HERE / name, folder)
    return folder


def verify(folder):
    return verifier.main(["--root", str(folder.parents[1])])


def edit(folder, name, change):
    """Apply `change` to the parsed file and write it back."""
    data = json.loads((folder / name).read_text())
    change(data)
    (folder / name).write_bytes(canonical_json(data))


def put(folder, version, name, text):
    """Let `name` be printed as `text` in one version."""
    group, *keys, last = name.split(".")

    def change(data):
        value = data["groups"][group]["values"]
        for key in keys:
            value = value[key]
        value[last] = text

    edit(folder, f"version_{version}.json", change)


def failing_lines(folder, capsys):
    """The FAIL lines of a run that must exit 1."""
    assert verify(folder) == 1
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]


def unit_of(value):
    return value.high - value.low or 1


def moved(numbers, name, shift):
    """The ranges of all versions with one printed number moved."""
    def move(value):
        return formulas.Range(value.low + shift, value.high + shift)

    return {v: {key: move(value) if key.removeprefix("first.") == name else value for key, value in known.items()}
            for v, known in numbers.items()}


def readers(relations, numbers):
    """{name: [(version, formula, its recorded sides or None)]}."""
    recorded = {(entry["version"], entry["claim"]): entry["found"] for entry in relations["known_discrepancies"]}
    found = defaultdict(list)
    for _, _, version, formula in relations["formulas"]:
        for name in formula.names(numbers[version]):
            found[name.removeprefix("first.")].append((version, formula, recorded.get((version, formula.text))))
    return found


def is_caught(numbers, name, shift, reading):
    """Whether some claim that reads `name` comes out otherwise than stated or recorded."""
    changed = moved(numbers, name, shift)
    outcomes = ((formula.check(changed[version]), recorded) for version, formula, recorded in reading)
    return any(not holds if recorded is None else holds or sides != recorded for (holds, sides), recorded in outcomes)


def test_all_that_is_printed_holds_but_for_what_is_recorded(capsys):
    """Exit 0, and the last line counts the lines before it."""
    assert verifier.main([]) == 0
    out = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d+ checks, 0 failed", out[-1]) and int(out[-1].split()[0]) == len(out) - 1 > 700
    assert sum("does not hold as printed" in line for line in out) == 6


def test_every_number_is_held_by_a_relation_or_listed(loaded):
    """Moved far enough in one direction at least, every number outside the list of uncheckable ones is caught."""
    relations, versions, numbers = loaded
    reading = readers(relations, numbers)
    names = versions[1][0].keys() | versions[2][0].keys()
    tight = 0
    for name in sorted(names - set(relations["uncheckable"])):
        unit = unit_of(numbers[2].get(name) or numbers[1][name])
        first = [next((s for s in STEPS if is_caught(numbers, name, sign * s * unit, reading[name])), None)
                 for sign in (1, -1)]
        assert any(first), f"no relation notices {name}"
        tight += None not in first and max(first) <= 3
    assert tight > 0.62 * len(names), f"only {tight} numbers are caught within three last digits both ways"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_changed_number_fails_the_run_and_is_named(copied, capsys, loaded, seed):
    """One number of one version, drawn by seed, moved by the first step its relations notice."""
    relations, versions, numbers = loaded
    reading, draw = readers(relations, numbers), random.Random(seed)
    for version in (1, 2):
        checkable = sorted(versions[version][0].keys() - set(relations["uncheckable"]))
        for name in draw.sample(checkable, 8):
            old = versions[version][0][name]
            unit = unit_of(numbers[version][name])
            shift = next(sign * s * unit for s in STEPS for sign in (1, -1)
                         if is_caught(numbers, name, sign * s * unit, reading[name]))
            middle = sum(numbers[version][name]) / 2 + shift
            put(copied, version, name, f"{middle:f}")
            assert any(name in line for line in failing_lines(copied, capsys)), f"{name}: {old} to {middle}"
            put(copied, version, name, old)


def test_an_uncheckable_number_is_only_held_by_its_repetition(copied, capsys):
    """Listed as uncheckable and really so: changed alike in both versions nothing notices, in one the other does."""
    put(copied, 1, "coverage.median_prefix", "15")
    assert any("coverage.median_prefix 15 | 14" in line for line in failing_lines(copied, capsys))
    put(copied, 2, "coverage.median_prefix", "15")
    assert verify(copied) == 0


def test_the_lists_of_what_no_relation_reads_are_exact(loaded):
    """Found again by searching the text of the claims, without the verifier's own reading of them."""
    relations, versions, _ = loaded
    read, equated = set(), set()
    for relation in relations["relations"]:
        columns = {key: words.split() for key, words in relation["each"].items()}
        steps = [dict(zip(columns, step)) for step in zip(*columns.values())] or [{}]
        for text in (claim.format(**step) for claim in relation["claims"] for step in steps):
            words = {word.removeprefix("first.") for word in re.findall(r"[a-z_*]\w*(?:\.[\w*]+)+", text)}
            words |= set(re.findall(r'"([^"]+)"', text))
            read |= words
            equated |= words if "==" in text else set()

    def reached(name, words):
        return any(fnmatchcase(name, word) for word in words)

    names = sorted(versions[1][0].keys() | versions[2][0].keys())
    assert relations["uncheckable"] == [name for name in names if not reached(name, read)]
    assert relations["only_bounded"] == [n for n in names if reached(n, read) and not reached(n, equated)]


@pytest.mark.parametrize("key", ["uncheckable", "only_bounded", "known_discrepancies", "only_in_version_1"])
def test_a_list_that_is_one_short_fails(copied, capsys, key):
    """Nothing can be left unsaid: each list must be exactly what is found."""
    edit(copied, "relations.json", lambda data: data[key].pop())
    assert failing_lines(copied, capsys)


def test_a_discrepancy_that_is_none_fails(copied, capsys):
    """A claim that holds cannot be recorded as not holding, nor one recorded that no relation states."""
    def add(claim):
        return lambda data: data["known_discrepancies"].append(
            {"version": 2, "claim": claim, "found": "2049 == 2050", "note": ""})

    edit(copied, "relations.json", add("setup.capacity == setup.context + 1"))
    assert any("setup.capacity == setup.context + 1 reads" in line for line in failing_lines(copied, capsys))
    edit(copied, "relations.json", lambda data: data["known_discrepancies"].pop())
    edit(copied, "relations.json", add("setup.capacity == setup.width"))
    assert any("no relation states" in line for line in failing_lines(copied, capsys))


def test_a_changed_identifier_fails(copied, capsys):
    """A digit too few in a hash of version 2 alone, and another commit in version 1 than in version 2."""
    edit(copied, "version_2.json", lambda data: data["identifiers"].update(trl_commit="ed8c"))
    edit(copied, "version_1.json", lambda data: data["identifiers"].update(autoresearch_commit="0" * 40))
    lines = failing_lines(copied, capsys)
    assert any("trl_commit" in line for line in lines) and any("autoresearch_commit" in line for line in lines)


@pytest.mark.parametrize("text", ["12a", "", "1..2", ".", "NaN", "1e5"])
def test_what_is_not_a_printed_number_is_refused_by_name(copied, text):
    """Exit 2's error names file, key and text."""
    put(copied, 2, "coverage.emitted", text)
    with pytest.raises(InputError, match=r"version_2.json: coverage.emitted.*" + re.escape(repr(text))):
        verify(copied)


def test_a_removed_or_unmarked_number_is_refused(copied):
    """A relation that reads a missing number says which; data not marked as reported is not read."""
    edit(copied, "version_2.json", lambda data: data["groups"]["coverage"]["values"].pop("emitted"))
    with pytest.raises(InputError, match="coverage.emitted"):
        verify(copied)
    edit(copied, "version_1.json", lambda data: data.update(status="measured"))
    with pytest.raises(InputError, match="reported by the paper"):
        verify(copied)


@pytest.mark.parametrize("claim, holds", [
    ("a.x + a.y == 0.255", True), ("a.x + a.y == 0.2601", False),
    ("a.x == a.z", True), ("a.z == a.x + 0.04", False),
    ("a.n - 1 == 1234566", True), ("a.n == 1234568", False),
    ("a.x < a.x", True), ("a.n < a.n", False), ("a.n <= a.n", True), ("-a.x < 0 < a.x", True),
    ("exp(0) == 1", True), ("ln(exp(a.n / a.n)) == 1", True), ("remainder(a.n, 10) == 7", True),
    ("floor(a.t) == 62170", True), ("ceil(a.t) == 62171", True), ("round(a.t) == 62171", True),
    ('count("a.*") == 6', True), ('sum("a.x", "a.y") == 0.25', True), ('sum("a.x", "a.y") == 0.27', False),
    ("largest(a.x, a.n) == a.n", True), ("smallest(a.x, a.n) == a.x", True),
    ("a.n / (a.x - 0.12) == 1", False), ("a.w == 7", True),
])
def test_formulas_use_every_value_a_printed_number_may_stand_for(claim, holds):
    """Worked by hand: 0.12 is 0.115 to 0.125, 0.13 is 0.125 to 0.135; whole numbers, words and times are exact."""
    texts = {"a.x": "+0.12", "a.y": ".13", "a.z": "0.1", "a.n": "1,234,567", "a.t": "17:16:10.6", "a.w": "Seven"}
    numbers = {name: formulas.read_printed(text, name) for name, text in texts.items()}
    assert formulas.Formula(claim).check(numbers)[0] is holds


@pytest.mark.parametrize("change, message", [
    ({"version": 1}, "version: expected that of the file's name, found 1"),
    ({"identifiers": {"peer_time": 7}}, "identifiers.peer_time: expected a text that is not empty, found 7")])
def test_a_file_of_another_version_and_identifiers_that_are_no_text_are_refused(copied, change, message):
    """Neither passes unread."""
    edit(copied, "version_2.json", lambda data: data.update(change))
    with pytest.raises(InputError, match=f"version_2.json[:.] ?{message}"):
        verify(copied)


FREE_KEYS = {"groups": "group", "values": "name", "name": "name", "identifiers": "name", "each": "name"}


def places(value, path=(), kind=("file",)):
    """{kind of place: the first path of it} of all values inside a JSON value; what is freely named is of one kind."""
    found = {kind: path} if path else {}
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        step = "entry" if isinstance(value, list) else FREE_KEYS.get(kind[-1], key)
        found = places(item, (*path, key), (*kind, step)) | found
    return found


@pytest.mark.parametrize("name", FILES)
def test_a_value_of_another_type_is_refused_by_file_and_key(copied, name):
    """In every kind of place of relations.json and version_*.json, a value of each other JSON type."""
    whole, tried = json.loads((copied / name).read_text()), 0
    for path in places(whole).values():
        data = json.loads((copied / name).read_text())
        *above, last = path
        holder = functools.reduce(operator.getitem, above, data)
        right = holder[last]
        for wrong in ("text", 7, None, [7], {"key": 7}):
            if type(wrong) is not type(right) or wrong == [7]:
                holder[last] = wrong
                (copied / name).write_bytes(canonical_json(data))
                with pytest.raises(InputError) as caught:
                    verify(copied)
                assert name in str(caught.value) and next(k for k in path[::-1] if type(k) is str) in str(caught.value)
                tried += 1
        (copied / name).write_bytes(canonical_json(whole))
    assert tried > 30


@pytest.mark.parametrize("claim", ["a.x", "a.x != 1", "f(a.x) == 1", "a.x ** 2 == 1", "a.x ==", "a.q == 1",
                                   '"b.*" == 1'])
def test_a_claim_that_cannot_be_read_is_refused(claim):
    """InputError, never a pass."""
    with pytest.raises(InputError, match="relations.json"):
        formulas.Formula(claim).check({"a.x": formulas.exactly(1)})


def test_the_files_are_canonical():
    """Sorted keys, two spaces, one final newline."""
    for name in FILES:
        data = (HERE / name).read_bytes()
        assert data == canonical_json(json.loads(data)), name
