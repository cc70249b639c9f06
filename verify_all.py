"""Does everything in this supplement hold: the files, and each number that can be derived again without data or a GPU?

    python verify_all.py [FOLDER]

Lies at the top of an unpacked supplement; there is no repository to install. First the folder is compared with
manifest.sha256 (nothing changed, missing or extra), then each verifier that parts.json names runs in its own process.

Reads   FOLDER (default: the one of this file)
Writes  nothing, not even __pycache__
Needs   Python 3.11 or newer and its standard library; parts that say NumPy need that too
About   half a minute on one core

Exit codes: 0 every part ran and holds; 1 something is false; 2 something could not be checked. Either is named.
"""

import argparse
import importlib.util
import itertools
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.dont_write_bytecode = True  # a cached module would be a file that the list does not name
sys.path.insert(0, str(Path(__file__).resolve().parent))  # Python leaves it out under -I or PYTHONSAFEPATH

from bundles.archive import MANIFEST, folder_findings
from evidence import InputError, read_json, require_keys, run_script

HERE = Path(__file__).resolve().parent

PARTS = "parts.json"
COUNT = re.compile(r"^(\d+) checks, (\d+) failed$", re.MULTILINE)
WIDTH = 24
HOLDS, FALSE, UNCHECKED = "holds", "FAILED", "not checked"


class Outcome(NamedTuple):
    """What one part found: counts are None when it did not get that far; `lines` say what is wrong."""

    name: str
    made: "int | None"  # a text, so that an older Python gets as far as being told so
    failed: "int | None"
    seconds: float
    verdict: str
    lines: list


def check_files(folder):
    """The closed world: one check a listed file, a finding each for what is changed, missing or extra."""
    began = time.monotonic()
    try:
        listed, findings = folder_findings(folder)
    except InputError as error:
        return Outcome("files", None, None, time.monotonic() - began, UNCHECKED, [str(error)])
    verdict = FALSE if findings else HOLDS
    return Outcome("files", listed, len(findings), time.monotonic() - began, verdict, findings)


def lacking(part, folder):
    """What keeps a part from being run, or None."""
    for name in [part["command"][0], *part["evidence"]]:
        if not (folder / name).is_file():
            return f"{folder / name}: missing; unpack the archive again"
    absent = [module for module in part["needs"] if importlib.util.find_spec(module) is None]
    return f"needs {', '.join(absent)}: python -m pip install {' '.join(absent)}" if absent else None


def run_part(part, folder):
    """Run one verifier with this interpreter in the folder, free of the caller's PYTHON* settings."""
    began = time.monotonic()
    if reason := lacking(part, folder):
        return Outcome(part["name"], None, None, 0.0, UNCHECKED, [reason])
    command = [sys.executable, "-B", "-E", "-X", "utf8", *part["command"]]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", errors="replace")
    return judged(part["name"], done, time.monotonic() - began)


def false_lines(printed):
    """The checks that failed, each with the indented findings below it."""
    lines, within = [], False
    for line in printed.splitlines():
        within = line.startswith("FAIL") or within and line.startswith("     ")
        lines += [line.removeprefix("FAIL").strip()] * within
    return lines


def judged(name, done, seconds):
    """The outcome of a finished verifier: what it counted and its exit code must agree, or it checked nothing."""
    counts = COUNT.findall(done.stdout)
    made, failed = map(int, counts[-1]) if counts else (None, None)
    if made and (done.returncode, failed > 0) in ((0, False), (1, True)):
        return Outcome(name, made, failed, seconds, FALSE if failed else HOLDS, false_lines(done.stdout))
    said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it said nothing"]
    return Outcome(name, made, failed, seconds, UNCHECKED, [f"exit code {done.returncode}: {said[0]}"])


def read_parts(folder):
    """(verifiers, what the supplement was frozen without, []); of a broken parts.json, ([], [], [what is wrong])."""
    try:
        content = read_json(folder / PARTS)
        require_keys(content, ("frozen_without", "parts"), folder / PARTS)
        for number, part in enumerate(content["parts"]):
            require_keys(part, ("command", "evidence", "name", "needs"), f"{folder / PARTS}: parts[{number}]")
        if not content["parts"]:
            raise InputError(f"{folder / PARTS}: parts: an empty list checks nothing")
    except InputError as error:
        return [], [], [Outcome(PARTS, None, None, 0.0, UNCHECKED, [str(error)])]
    return content["parts"], content["frozen_without"], []


def print_table(outcomes):
    """One line an outcome as it comes; returns them all."""
    print(f"{'part':<{WIDTH}} {'checks':>7} {'failed':>7} {'seconds':>8}  verdict", flush=True)
    seen = []
    for outcome in outcomes:
        made, failed = ("-" if value is None else value for value in (outcome.made, outcome.failed))
        print(f"{outcome.name:<{WIDTH}} {made:>7} {failed:>7} {outcome.seconds:>8.1f}  {outcome.verdict}", flush=True)
        seen.append(outcome)
    return seen


def exit_code(outcomes):
    verdicts = [outcome.verdict for outcome in outcomes]
    return 1 if FALSE in verdicts else 2 if UNCHECKED in verdicts else 0


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=HERE, help="default: the one of this file")
    folder = parser.parse_args(argv).folder.resolve()
    if sys.version_info < (3, 11):
        raise InputError(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    if not (folder / MANIFEST).is_file():
        raise InputError(f"{folder / MANIFEST}: missing; FOLDER must be an unpacked supplement")
    parts, without, broken = read_parts(folder)
    outcomes = print_table(itertools.chain([check_files(folder)], broken, (run_part(part, folder) for part in parts)))
    for line in [f"{outcome.name}: {line}" for outcome in outcomes for line in outcome.lines]:
        print(line)
    for what in without:
        print(f"frozen without {what}")
    held, false, unchecked = (sum(outcome.verdict == v for outcome in outcomes) for v in (HOLDS, FALSE, UNCHECKED))
    print(f"{len(outcomes)} parts: {held} hold, {false} failed, {unchecked} not checked: {folder}")
    return exit_code(outcomes)


if __name__ == "__main__":
    sys.exit(run_script(main))
