"""Do the numbers that the paper prints agree with one another, each within its last printed digit?

version_1.json and version_2.json hold every number of the paper's two versions as the string that the paper prints,
marked as reported: this project measured none of them. relations.json holds the relations between them as small
formulas (formulas.py). A printed decimal represents every value that rounds to it, so formulas are computed on ranges:
`==` holds when both sides share a value, and `<` when some values of both sides satisfy it. relations.json lists the
claims that do not hold as printed, with both sides, and this script checks that the list is exactly what it finds.

    python research/published_tables/verify_published_tables.py [--root DIR]

Reads   version_1.json, version_2.json and relations.json beside this script
Writes  nothing
Needs   Python's standard library
About   one second
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import Checks, parser, run_script
from research.published_tables.printed import QUESTION, reach, read_all

ROOT = Path(__file__).resolve().parents[2]
DIGESTS = {"sha256": 64, "commit": 40}


def check_formulas(checks, relations, numbers):
    """Check every claim. A false claim passes only where it is recorded as not holding, with exactly these sides."""
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
    """Check that both versions print their common numbers alike, and that the list of version 1's own is exact."""
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
    """Check that each SHA-256 has 64 hex digits and each commit 40."""
    for version, (_, identifiers) in versions.items():
        for name, text in identifiers.items():
            if digits := DIGESTS.get(name.rsplit("_", 1)[-1]):
                whole = re.fullmatch(f"[0-9a-f]{{{digits}}}", text) is not None
                checks.expect(whole, f"version {version}, {name}: {digits} hex digits: {text}")


def check_reach(checks, relations, numbers, versions):
    """Check the lists of numbers that no relation reads, and of those that only inequalities read."""
    printed = versions[1][0].keys() | versions[2][0].keys()
    equated, read = reach(relations["formulas"], numbers)
    for key, found in (("uncheckable", printed - read), ("only_bounded", (printed & read) - equated)):
        differing = sorted(found ^ set(relations[key]))
        text = f"{key}: {len(found)} of {len(printed)} numbers; differing from the list: {differing or 'none'}"
        checks.expect(not differing, text)


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    versions, relations, numbers = read_all(arguments.parse_args(argv).root / QUESTION)
    checks = Checks()
    check_formulas(checks, relations, numbers)
    check_repeats(checks, versions, relations["only_in_version_1"])
    check_digests(checks, versions)
    check_reach(checks, relations, numbers, versions)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
