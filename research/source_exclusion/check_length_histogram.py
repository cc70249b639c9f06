"""When could the longest documents of a repeated corpus first be served, and do the frozen counts say so?

With r documents of at least some length (above the capacity) in a pass, and a buffer of B, none of them can begin
before B of them have arrived: pass ceil(B / r) at the earliest (paper, section 3, repeated-corpus corollary).
Every frozen number is derived again from the [length, count] pairs; of the paper's table, which comes without them,
the passes are derived, the counts are checked for what they must satisfy, and all of it is held against the printed
numbers in research/published_tables, where those are there.

Reads:   research/source_exclusion/length_histogram_*.json and paper_thresholds.json, or the files named;
         research/published_tables/version_2.json below --root
Writes:  nothing
Needs:   Python's standard library
Takes:   a second
Use:     python research/source_exclusion/check_length_histogram.py [FILE ...]
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import Checks, InputError, read_json, read_json_if_there, require_keys, run_script

HERE = Path(__file__).resolve().parent

REPORTED_KEYS = {"buffer_size", "capacity", "documents", "source", "thresholds", "tokens"}
FROZEN_KEYS = {"buffer_size", "capacity", "documents", "histogram", "inputs", "study", "thresholds", "tokens"}


def require_whole(value, where):
    """`value` when it is a whole number above 0, else InputError naming `where`."""
    if type(value) is not int or value < 1:
        raise InputError(f"{where}: expected a whole number above 0, found {value!r}")
    return value


def read_summary(path):
    """The content of a frozen histogram or of the reported table; InputError when its shape is not that."""
    content = read_json(path)
    frozen = isinstance(content, dict) and "histogram" in content
    require_keys(content, FROZEN_KEYS if frozen else REPORTED_KEYS, path)
    for key in ("buffer_size", "capacity", "documents", "tokens"):
        require_whole(content[key], f"{path}: {key}")
    for key in {"thresholds", "histogram"} & set(content):
        if not isinstance(content[key], list):
            raise InputError(f"{path}: {key}: expected a list, found {content[key]!r}")
    row_keys = {"length", "documents", "earliest_pass"} | ({"tokens"} if frozen else set())
    for index, row in enumerate(content["thresholds"]):
        require_keys(row, row_keys, f"{path}: thresholds[{index}]")
        for key, value in row.items():
            require_whole(value, f"{path}: thresholds[{index}].{key}")
    for index, pair in enumerate(content.get("histogram", [])):
        if not isinstance(pair, list) or len(pair) != 2:
            raise InputError(f"{path}: histogram[{index}]: expected [length, count], found {pair!r}")
        for value in pair:
            require_whole(value, f"{path}: histogram[{index}]")
    return content


def earliest_pass(buffer_size, documents):
    """The first pass by whose end `buffer_size` such documents have arrived, by adding up whole passes."""
    passes = arrived = 0
    while arrived < buffer_size:
        passes, arrived = passes + 1, arrived + documents
    return passes


def check_equal(checks, name, found, expected):
    """One check of a frozen number against the derived one."""
    checks.expect(found == expected, f"{name}: {found}" + ("" if found == expected else f", derived {expected}"))


def check_passes(checks, name, content):
    """What any table of thresholds must satisfy, counted or reported."""
    rows, size = content["thresholds"], content["buffer_size"]
    for row in rows:
        at = f"{name}: length >= {row['length']}, {row['documents']} documents a pass, earliest pass"
        check_equal(checks, at, row["earliest_pass"], earliest_pass(size, row["documents"]))
    lengths = [row["length"] for row in rows]
    counts = [content["documents"], *(row["documents"] for row in rows)]
    rising = lengths == sorted(set(lengths)) and all(length > content["capacity"] for length in lengths)
    checks.expect(rising and counts == sorted(counts, reverse=True),
                  f"{name}: {len(rows)} rising thresholds above capacity {content['capacity']}, falling counts")
    bands = zip(rows, [row["documents"] for row in rows[1:]] + [0])
    least = sum((row["documents"] - longer) * row["length"] for row, longer in bands)
    least += content["documents"] - (rows[0]["documents"] if rows else 0)
    checks.expect(least <= content["tokens"], f"{name}: {content['tokens']} tokens, at least {least} by the thresholds")


def expected_thresholds(capacity, longest):
    """capacity + 1, every power of two between it and the longest length, and the longest: if above the capacity."""
    steps, power = [capacity + 1], 1
    while power < longest:
        steps += [power] if power > steps[-1] else []
        power *= 2
    return [step for step in steps if step < longest] + [longest] * (longest > capacity)


def check_counts(checks, name, content):
    """Every number of a frozen histogram from its pairs."""
    pairs = content["histogram"]
    lengths = [length for length, _ in pairs]
    checks.expect(pairs and lengths == sorted(set(lengths)), f"{name}: {len(pairs)} lengths in rising order")
    check_equal(checks, f"{name}: documents", content["documents"], sum(count for _, count in pairs))
    check_equal(checks, f"{name}: tokens", content["tokens"], sum(length * count for length, count in pairs))
    for row in content["thresholds"]:
        reached = [(length, count) for length, count in pairs if length >= row["length"]]
        at = f"{name}: length >= {row['length']}"
        check_equal(checks, f"{at}, documents", row["documents"], sum(count for _, count in reached))
        check_equal(checks, f"{at}, tokens", row["tokens"], sum(length * count for length, count in reached))
    found = [row["length"] for row in content["thresholds"]]
    check_equal(checks, f"{name}: thresholds", found, expected_thresholds(content["capacity"], max(lengths, default=0)))


def whole(printed):
    """A whole number as the paper prints it, with commas."""
    return int(printed.replace(",", ""))


def check_printed(checks, name, content, path):
    """The reported table holds the paper's census, packing and passes, as they are transcribed from its text."""
    if not (tables := read_json_if_there(path)):
        return
    census, packing, passes = (tables["groups"][group]["values"] for group in ("census", "packing", "passes"))
    rows = [[whole(row[key]) for key in ("length", "sources", "earliest")] for row in passes.values()]
    printed = {"documents": whole(census["documents"]), "tokens": whole(census["tokens"]),
               "buffer_size": whole(census["buffer"]), "capacity": whole(packing["capacity"]),
               "thresholds": [dict(zip(("length", "documents", "earliest_pass"), row)) for row in sorted(rows)]}
    checks.equal(f"{name}: printed in {path.name}", {key: content[key] for key in printed}, printed)


def main(argv=None):
    """Check the files; 0 all holds, 1 a number is false, 2 could not check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="default: all frozen, and the paper's")
    parser.add_argument("--root", type=Path, default=HERE.parents[1], metavar="DIR", help="default: two folders up")
    options = parser.parse_args(argv)
    files = options.files or [HERE / "paper_thresholds.json", *sorted(HERE.glob("length_histogram_*.json"))]
    checks = Checks()
    for path in files:
        content = read_summary(path)
        counted = "histogram" in content
        name = content["study"] if counted else "paper"
        print(f"{path.name}: {'counted from the stream of ' + name if counted else content['source']}")
        check_passes(checks, name, content)
        if counted:
            check_counts(checks, name, content)
        else:
            check_printed(checks, name, content, options.root / "research/published_tables/version_2.json")
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
