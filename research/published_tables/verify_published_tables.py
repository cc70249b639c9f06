"""Do the numbers the paper prints agree with one another, each within its last printed digit?

Every number of the paper's two versions stands in version_1.json and version_2.json as the string printed there, marked
as reported: nothing here was measured by this project. relations.json holds what must hold between them, as small
formulas (formulas.py). A printed decimal means every value that rounds to it, so a formula is computed on ranges: `==`
holds when both sides share a value, `<` when some values of both sides satisfy it. What does not hold as printed is
listed in relations.json with both sides, and this script checks that the list is exactly what it finds.

Reads   version_1.json, version_2.json, relations.json beside this file
Writes  nothing
Needs   the standard library, evidence.py and protocols/schema.py; about a second
Usage   python research/published_tables/verify_published_tables.py [--data FOLDER]
"""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import Checks, InputError, read_json, run_script
from protocols.schema import TEXT, Leaf, check_shape
from research.published_tables.formulas import Formula, exactly, read_printed

HERE = Path(__file__).resolve().parent

DIGESTS = {"sha256": 64, "commit": 40}


def _list_of(holds):
    return lambda value: type(value) is list and all(map(holds, value))


def _same_word_counts(value):
    return type(value) is dict and all(map(NOTE.holds, value.values())) and \
        len({len(words.split()) for words in value.values()}) < 2


# The shapes of the two kinds of file; the two lists of objects may be empty, so their entries are checked one by one.
NOTE = Leaf("a text", lambda v: type(v) is str)
DECIMAL = Leaf("a decimal as a text", lambda v: NOTE.holds(v) and re.fullmatch(r"\d+(\.\d+)?", v) is not None)
NAMES = Leaf("a list of texts", _list_of(NOTE.holds))
LIST = Leaf("a list", lambda v: type(v) is list)
OBJECT = Leaf("an object", lambda v: type(v) is dict)
NUMBER = Leaf("1 or 2", lambda v: type(v) is int and v in (1, 2))
NUMBERS = Leaf("a list of 1 and 2", _list_of(NUMBER.holds))
COLUMNS = Leaf("an object of texts with as many words each", _same_word_counts)
VERSION = {"groups": {TEXT: {"section": TEXT, "values": OBJECT}}, "identifiers": {TEXT: TEXT}, "status": TEXT,
           "version": NUMBER}
RELATIONS = {"constants": {"source": TEXT, "values": {TEXT: DECIMAL}}, "known_discrepancies": LIST, "relations": LIST,
             "only_bounded": NAMES, "only_in_version_1": NAMES, "uncheckable": NAMES}
ENTRIES = {"known_discrepancies": {"claim": TEXT, "found": TEXT, "note": NOTE, "version": NUMBER},
           "relations": {"claims": NAMES, "each": COLUMNS, "section": TEXT, "versions": NUMBERS, "why": TEXT}}


def _leaves(value, name, path):
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}", path)
    else:
        raise InputError(f"{path}: {name}: expected a printed string, found {value!r}")


def load_version(path):
    """({name: printed string}, {identifier: string}) of one version file."""
    data = read_json(path)
    check_shape(data, VERSION, path)
    if data["status"] != "reported by the paper":
        raise InputError(f"{path}: status: expected 'reported by the paper', found {data['status']!r}")
    if path.name != f"version_{data['version']}.json":
        raise InputError(f"{path}: version: expected that of the file's name, found {data['version']!r}")
    strings = {}
    for name, group in data["groups"].items():
        strings |= dict(_leaves(group["values"], name, path))
    return strings, data["identifiers"]


def load_relations(path):
    """relations.json with every relation written out: its "formulas" are [(section, why, version, Formula)]."""
    data = read_json(path)
    check_shape(data, RELATIONS, path)
    for key, shape in ENTRIES.items():
        for index, entry in enumerate(data[key]):
            check_shape(entry, shape, f"{path}.{key}[{index}]")
    data["formulas"] = []
    for relation in data["relations"]:
        columns = {key: words.split() for key, words in relation["each"].items()}
        steps = [dict(zip(columns, step)) for step in zip(*columns.values(), strict=True)] or [{}]
        data["formulas"] += [
            (relation["section"], relation["why"], version, Formula(claim.format(**step)))
            for version in relation["versions"] for step in steps for claim in relation["claims"]
        ]
    return data


def namespaces(versions, constants):
    """{version: {name: Range}}: the version's own numbers, `recipe.` constants, and version 1's under `first.`."""
    known = {f"recipe.{key}": exactly(value) for key, value in constants["values"].items()}
    ranges = {v: {name: read_printed(text, f"version_{v}.json: {name}") for name, text in strings.items()}
              for v, (strings, _) in versions.items()}
    earlier = {f"first.{name}": value for name, value in ranges[1].items()}
    return {1: ranges[1] | known, 2: ranges[2] | earlier | known}


def reach(formulas, numbers):
    """(names some equation reads, names any claim reads), names of both versions taken together."""
    equated, read = set(), set()
    for _, _, version, formula in formulas:
        names = {name.removeprefix("first.") for name in formula.names(numbers[version])}
        read |= names
        equated |= names if formula.equates else set()
    return equated, read


# ------------------------------------------------------------------------------------------ checks


def check_formulas(checks, relations, numbers):
    """Check every claim; one that is false is fine only where it is recorded as not holding, with these very sides."""
    recorded = {(entry["version"], entry["claim"]): entry["found"] for entry in relations["known_discrepancies"]}
    for section, why, version, formula in relations["formulas"]:
        holds, sides = formula.check(numbers[version])
        expected = recorded.pop((version, formula.text), None)
        right = holds if expected is None else not holds and sides == expected
        note = "" if expected is None else f" (does not hold as printed; recorded: {expected})"
        reads = "" if right else f"; {formula.text} reads {', '.join(formula.names(numbers[version]))}"
        checks.expect(right, f"version {version}, {section}, {why}: {sides}{note}{reads}")
    checks.expect(not recorded, f"recorded discrepancies that no relation states: {sorted(recorded) or 'none'}")


def check_repeats(checks, versions, only_first):
    """What both versions print is printed alike, and what only version 1 prints is what is listed."""
    for kind, (first, second) in zip(("numbers", "identifiers"), zip(versions[1], versions[2])):
        shared = first.keys() & second.keys()
        differing = [f"{name} {first[name]} | {second[name]}" for name in sorted(shared) if first[name] != second[name]]
        text = f"{len(shared)} {kind} printed alike in both versions; differing: {differing or 'none'}"
        checks.expect(not differing, text)
    gone = set().union(*versions[1]) - set().union(*versions[2])
    differing = sorted(gone ^ set(only_first))
    text = f"{len(gone)} printed in version 1 alone; differing from the list: {differing or 'none'}"
    checks.expect(not differing, text)


def check_digests(checks, versions):
    """Each SHA-256 is 64 hex digits and each commit 40."""
    for version, (_, identifiers) in versions.items():
        for name, text in identifiers.items():
            if digits := DIGESTS.get(name.rsplit("_", 1)[-1]):
                whole = re.fullmatch(f"[0-9a-f]{{{digits}}}", text) is not None
                checks.expect(whole, f"version {version}, {name}: {digits} hex digits: {text}")


def check_reach(checks, relations, numbers, versions):
    """The lists of numbers that no relation reads, or only inequalities do, are exactly right."""
    printed = versions[1][0].keys() | versions[2][0].keys()
    equated, read = reach(relations["formulas"], numbers)
    for key, found in (("uncheckable", printed - read), ("only_bounded", (printed & read) - equated)):
        differing = sorted(found ^ set(relations[key]))
        text = f"{key}: {len(found)} of {len(printed)} numbers; differing from the list: {differing or 'none'}"
        checks.expect(not differing, text)


def main(argv=None):
    """Run all checks; 0 when all hold, 1 when one does not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE, help="folder of the three JSON files")
    folder = parser.parse_args(argv).data
    versions = {v: load_version(folder / f"version_{v}.json") for v in (1, 2)}
    relations = load_relations(folder / "relations.json")
    numbers = namespaces(versions, relations["constants"])
    checks = Checks()
    check_formulas(checks, relations, numbers)
    check_repeats(checks, versions, relations["only_in_version_1"])
    check_digests(checks, versions)
    check_reach(checks, relations, numbers, versions)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
