"""Do the numbers the paper prints agree with one another, each within its last printed digit?

Every number of the paper's two versions stands in version_1.json and version_2.json as the string printed there, marked
as reported: nothing here was measured by this project. relations.json holds what must hold between them, as small
formulas (formulas.py). A printed decimal means every value that rounds to it, so a formula is computed on ranges: `==`
holds when both sides share a value, `<` when some values of both sides satisfy it. What does not hold as printed is
listed in relations.json with both sides, and this script checks that the list is exactly what it finds.

Reads   version_1.json, version_2.json, relations.json beside this file
Writes  nothing
Needs   the standard library and evidence.py; about a second
Usage   python research/published_tables/verify_published_tables.py [--data FOLDER]
"""

import argparse
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from evidence import Checks, InputError, read_json, require_keys, run_script  # noqa: E402
from formulas import Formula, exactly, read_printed  # noqa: E402

DIGESTS = {"sha256": 64, "commit": 40}
KEYS = ("constants", "known_discrepancies", "only_bounded", "only_in_version_1", "relations", "uncheckable")


def _leaves(value, path):
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}")
    else:
        raise InputError(f"{path}: expected a printed string, found {value!r}")


def load_version(path):
    """({name: printed string}, {identifier: string}) of one version file."""
    data = read_json(path)
    require_keys(data, ("groups", "identifiers", "status", "version"), path)
    if data["status"] != "reported by the paper":
        raise InputError(f"{path}: status: expected 'reported by the paper', found {data['status']!r}")
    if path.name != f"version_{data['version']}.json":
        raise InputError(f"{path}: version: expected that of the file's name, found {data['version']!r}")
    strings = {}
    for name, group in data["groups"].items():
        require_keys(group, ("section", "values"), f"{path}: {name}")
        strings |= dict(_leaves(group["values"], name))
    list(_leaves(data["identifiers"], f"{path}: identifiers"))
    return strings, data["identifiers"]


def load_relations(path):
    """relations.json with every relation written out: its "formulas" are [(section, why, version, Formula)]."""
    data = read_json(path)
    require_keys(data, KEYS, path)
    for index, entry in enumerate(data["known_discrepancies"]):
        require_keys(entry, ("claim", "found", "note", "version"), f"{path}: known_discrepancies[{index}]")
    data["formulas"] = []
    for index, relation in enumerate(data["relations"]):
        require_keys(relation, ("claims", "each", "section", "versions", "why"), f"{path}: relations[{index}]")
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
