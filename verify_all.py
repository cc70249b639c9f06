"""Does everything here hold: the files, and each frozen number that can be derived again without data or a GPU?

Reads   manifests/verifiers.json of FOLDER, which is this repository or an unpacked supplement, and what its verifiers
        read. A supplement's files are first compared with its manifest.sha256: none changed, missing or extra
Writes  nothing, not even __pycache__
Needs   Python 3.11 or newer and its standard library; most verifiers need NumPy too
About   two minutes on two cores in the repository

    python verify_all.py [FOLDER] [--all] [--only NAME ...] [--workers N]

Each verifier runs in a process of its own and prints one line here: `ok`, or `FAIL` with the checks that failed below
it. Exit code 0: every verifier ran and holds. 1: something is false. 2: nothing was found false, and something could
not be checked, which is named.
"""

import sys
from pathlib import Path

if sys.version_info < (3, 11):
    print(f"verify_all.py: Python 3.11 or newer is needed, this is {sys.version.split()[0]}", file=sys.stderr)
    sys.exit(2)
sys.dont_write_bytecode = True  # a cached module would be a file that the list does not name
sys.path.insert(0, str(Path(__file__).resolve().parent))

import importlib.util
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

import evidence
from bundles.archive import folder_findings
from evidence import InputError, read_json, require, require_keys, run_script
from surroundings import workers

ROOT = Path(__file__).resolve().parent
LIST = "manifests/verifiers.json"
KEYS = ("claim", "command", "data", "default", "evidence", "name", "needs", "seconds")
COUNT = re.compile(r"^(\d+) checks, (\d+) failed$", re.MULTILINE)
COUNT_V1 = re.compile(r"^(\d+) parts: \d+ hold, (\d+) failed, 0 not checked", re.MULTILINE)
HOLDS, FALSE, UNCHECKED = "ok  ", "FAIL", "not checked:"


class Outcome(NamedTuple):
    """The result of one verifier: its verdict, its counts of checks made and failed, and lines that say what failed."""

    name: str
    verdict: str
    made: int
    failed: int
    seconds: float
    lines: list


def check_files(folder):
    """Compare a supplement's files with its list: one check a listed file."""
    began = time.monotonic()
    try:
        listed, findings = folder_findings(folder)
    except InputError as error:
        return Outcome("files", UNCHECKED, 0, 0, 0.0, [str(error)])
    verdict = FALSE if findings else HOLDS
    return Outcome("files", verdict, listed, len(findings), time.monotonic() - began, findings)


def lacking(verifier, folder):
    """Return what keeps a verifier from running in this folder, or None."""
    for name in [verifier["command"][0], *verifier["evidence"], *verifier["data"]]:
        if not any(folder.glob(name)):
            return f"{folder / name}: missing"
    absent = [module for module in verifier["needs"] if importlib.util.find_spec(module) is None]
    return f"needs {', '.join(absent)}: python -m pip install {' '.join(absent)}" if absent else None


def run_verifier(verifier, folder):
    """Run one verifier with this interpreter in the folder, without the caller's PYTHON* settings."""
    if reason := lacking(verifier, folder):
        return Outcome(verifier["name"], UNCHECKED, 0, 0, 0.0, [reason])
    began = time.monotonic()
    command = [sys.executable, "-B", "-E", "-X", "utf8", *verifier["command"]]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", errors="replace")
    return judged(verifier["name"], done, time.monotonic() - began)


def failed_lines(printed):
    """Return the checks that failed, each with the indented findings below it."""
    lines, within = [], False
    for line in printed.splitlines():
        within = line.startswith(FALSE) or (within and line.startswith("     "))
        if within:
            lines.append(line.removeprefix(FALSE).strip())
    return lines


def judged(name, done, seconds):
    """Return the Outcome of a finished process: its exit code must agree with the counts in its last line."""
    counts = COUNT.findall(done.stdout) or COUNT_V1.findall(done.stdout)
    made, failed = map(int, counts[-1]) if counts else (0, 0)
    if made and (done.returncode, failed > 0) in ((0, False), (1, True)):
        return Outcome(name, FALSE if failed else HOLDS, made, failed, seconds, failed_lines(done.stdout))
    said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it printed nothing"]
    return Outcome(name, UNCHECKED, 0, 0, seconds, [f"exit code {done.returncode}: {said[0]}"])


def read_verifiers(folder):
    """Return the checked content of the folder's list of verifiers."""
    path = folder / LIST
    require(path.is_file(), path, "missing; FOLDER must be the repository or an unpacked supplement, and of "
            "supplement_v1 run its own copy: python supplement_v1/verify_all.py")
    content = read_json(path)
    require_keys(content, ("frozen_without", "supplement", "verifiers"), path)
    require(isinstance(content["verifiers"], list) and content["verifiers"], f"{path}: verifiers",
            "expected a list with entries; an empty list checks nothing")
    for number, verifier in enumerate(content["verifiers"]):
        require_keys(verifier, KEYS, f"{path}: verifiers[{number}]")
    return content


def chosen(verifiers, names, everything, where):
    """Return the verifiers to run: the named ones, else those that run by default, or all."""
    known = [verifier["name"] for verifier in verifiers]
    if unknown := sorted(set(names or []) - set(known)):
        raise InputError(f"{where}: no verifier {', '.join(map(repr, unknown))}; there are {', '.join(known)}")
    if names:
        return [verifier for verifier in verifiers if verifier["name"] in names]
    return [verifier for verifier in verifiers if everything or verifier["default"]]


def outcomes(content, verifiers, folder, count):
    """Yield the Outcome of every verifier as it ends, `count` at a time, the longest first."""
    if content["supplement"]:
        yield check_files(folder)
    with ThreadPoolExecutor(count) as pool:
        longest_first = sorted(verifiers, key=lambda verifier: -verifier["seconds"])
        for future in as_completed([pool.submit(run_verifier, verifier, folder) for verifier in longest_first]):
            yield future.result()


def show(outcome):
    """Print one outcome, and what failed below it."""
    if outcome.verdict == UNCHECKED:
        print(f"not checked: {outcome.name}: {outcome.lines[0]}", flush=True)
        return
    failed = f", {outcome.failed} failed" if outcome.failed else ""
    print(f"{outcome.verdict} {outcome.name}: {outcome.made:,} checks{failed} ({outcome.seconds:.1f} s)", flush=True)
    for line in outcome.lines:
        print(f"     {line}")


def exit_code(verdicts):
    """Return 1 when something is false, else 2 when something was not checked, else 0."""
    if FALSE in verdicts:
        return 1
    return 2 if UNCHECKED in verdicts else 0


def main(argv=None):
    """Run the verifiers of one folder; return 0, 1 or 2 as the docstring of this file says."""
    parser = evidence.parser(__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT, help="default: the folder of this file")
    parser.add_argument("--all", action="store_true", help="also run what needs prepared data, runs or more packages")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run these verifiers alone")
    parser.add_argument("--workers", type=int, metavar="N", help="verifiers at a time (default: one a core)")
    options = parser.parse_args(argv)
    folder = options.folder.resolve()
    content = read_verifiers(folder)
    verifiers = chosen(content["verifiers"], options.only, options.all, folder / LIST)
    found = []
    for outcome in outcomes(content, verifiers, folder, workers(len(verifiers), options.workers)):
        show(outcome)
        found.append(outcome)
    for what in content["frozen_without"]:
        print(f"frozen without {what}")
    if left := len(content["verifiers"]) - len(verifiers):
        print(f"left out: {left} verifiers that were not asked for; --all runs every one")
    verdicts = [outcome.verdict for outcome in found]
    print(f"{len(found)} verifiers: {verdicts.count(HOLDS)} hold, {verdicts.count(FALSE)} failed, "
          f"{verdicts.count(UNCHECKED)} not checked: {folder}")
    print(f"{sum(outcome.made for outcome in found)} checks, {sum(outcome.failed for outcome in found)} failed")
    return exit_code(verdicts)


if __name__ == "__main__":
    sys.exit(run_script(main))
