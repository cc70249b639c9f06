"""Is it so that the longest documents wait in the buffer, whole and unstarted, at every selection?

--self-test compares the two packers of packers.py, walks every world of small_worlds.py for the proposition and its
corollaries (paper, section 3), and finds the smallest world in which each rule of limits.py breaks it.
--lengths replays a real stream by its lengths alone and prints the exact totals.
Independent of the loaders: nothing of loaders/ is imported.

Reads:   with --lengths: an int64 .npy file or a JSON list of document lengths (tokens, BOS included), and --refill
Writes:  with --output, the totals as canonical JSON
Needs:   Python's standard library
Takes:   the self-test about a minute on one core; a replay about 2 s for 1,000,000 selections
Use:     python research/theorem/packing_checker.py --self-test
         python research/theorem/packing_checker.py --lengths data/demo/train/lengths.npy \\
             --refill data/demo/train/refill.npy --capacity 513 --buffer-size 1000 --rows 1000 --policy crop
"""

import argparse
import array
import ast
import collections
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import Checks, InputError, canonical_json, read_json, run_script, write_atomic
from research.theorem.counterexamples import BOUNDS, LIMITS, STUDIED, smallest_witness
from research.theorem.packers import Packer, SortedBuffer, UnsortedBuffer, replay
from research.theorem.small_cases import small_worlds, walk_world

POLICIES = {"crop": False, "lossless": True}
LONGEST_DOCUMENT = 2**31

# ------------------------------------------------------------------------------------------- self-test


CLAIMS = {
    "packers differ": "boundaries",
    "account broken": "worlds",
    "proposition broken": "guarded boundaries",
    "mass broken": "guarded boundaries",
    "startup broken": "long begun",
    "repeated broken": "long begun",
}


def check_small_worlds(checks, size):
    """Walk every small world under both policies and report each claim with the cases that could have broken it."""
    for policy, lossless in POLICIES.items():
        counts, masses = collections.Counter(), collections.defaultdict(set)
        for world in small_worlds(size):
            walk_world(world, lossless, counts, masses)
        print(f"{policy}: {counts['worlds']} worlds, every one of 1..{size} documents of 1..capacity + 3 tokens, every "
              f"refill, capacities 1..4, buffers 1..4; {counts['boundaries']} selection boundaries")
        for claim, stake in CLAIMS.items():
            checks.expect(counts[stake] and not counts[claim], f"{policy}: {claim} at {counts[claim]} of "
                          f"{counts[stake]} {stake}")
        checks.expect(counts["bound attained"], f"{policy}: the pass bound ceil(B / r) is attained at "
                      f"{counts['bound attained']} of {counts['long begun']} long begun")
        dependent = sum(len(found) > 1 for found in masses.values())
        checks.expect(masses and not dependent, f"{policy}: protected mass after whole passes depends on the order of "
                      f"arrival in {dependent} of {len(masses)} groups (multiset of lengths, capacity, buffer, passes)")


def check_random_worlds(checks, worlds=80, rows=50):
    """Every selection of both packers on random skewed streams, `worlds` x `rows` rows a policy."""
    for policy, lossless in POLICIES.items():
        source = random.Random(147018)
        differing = broken = guarded = selections = 0
        for _ in range(worlds):
            capacity, buffer_size = source.randint(2, 64), source.randint(1, 16)
            lengths = [1 + int(source.lognormvariate(2.5, 1.2)) for _ in range(source.randint(1, 80))]
            ends = sorted(source.sample(range(1, len(lengths)), source.randrange(len(lengths)))) + [len(lengths)]
            refill = [end - start for start, end in zip([0] + ends, ends)]
            settings = dict(capacity=capacity, buffer_size=buffer_size, rows=rows, lossless=lossless)
            slow = traced(lengths, refill, buffer_type=UnsortedBuffer, **settings)
            selections += len(slow)
            differing += slow != traced(lengths, refill, buffer_type=SortedBuffer, **settings)
            totals = replay(lengths, refill, **settings)
            guarded += totals["protected_documents"] > 0
            broken += totals["protected_selected"] > 0 or unaccounted(totals) != 0
        checks.expect(not differing, f"{policy}: packers differ in {differing} of {worlds} random worlds, "
                      f"{worlds * rows} rows, {selections} selections")
        checks.expect(guarded and not broken, f"{policy}: proposition or account broken in {broken} of these worlds, "
                      f"{guarded} with a protected document")


def traced(lengths, refill, *, buffer_type, capacity, buffer_size, rows, lossless):
    """Every selection of the first `rows` rows."""
    packer, selections = Packer(buffer_type(lossless), lengths, refill, capacity, buffer_size), []
    while packer.row < rows:
        packer.fill()
        selections.append(packer.select())
    return selections


def check_limits(checks):
    """A witness for each limit, and none for the studied rule in the same worlds."""
    for policy, lossless in POLICIES.items():
        tried, witness = smallest_witness(STUDIED, lossless)
        found = witness or f"no witness in {tried} worlds within {BOUNDS}"
        checks.expect(witness is None, f"{policy}, the studied rule: {found}")
        for name, rule in LIMITS.items():
            tried, witness = smallest_witness(rule, lossless)
            checks.expect(witness, f"{policy}, {name}: {witness or f'no witness in {tried} worlds'}")


def self_test(size):
    """All checks; returns the exit code."""
    checks = Checks()
    check_limits(checks)
    check_random_worlds(checks)
    check_small_worlds(checks, size)
    return checks.close()


# -------------------------------------------------------------------------------------- a real stream


def read_npy(path):
    """The int64 values of a one-dimensional .npy file, read without NumPy."""
    data = Path(path).read_bytes()
    start = {1: 10, 2: 12}.get(data[6] if data[:6] == b"\x93NUMPY" and len(data) > 12 else None)
    if start is None:
        raise InputError(f"{path}: expected a .npy file of version 1 or 2")
    end = start + int.from_bytes(data[8:start], "little")
    try:
        header = ast.literal_eval(data[start:end].decode("latin-1"))
        form = header["descr"], header["fortran_order"], header["shape"]
    except (SyntaxError, ValueError, KeyError, TypeError):
        raise InputError(f"{path}: the .npy header cannot be read") from None
    values = array.array("q")
    expected = "<i8", False, ((len(data) - end) // values.itemsize,)
    if form != expected or (len(data) - end) % values.itemsize:
        raise InputError(f"{path}: expected descr, order, shape {expected} from its size, found {form}")
    values.frombytes(data[end:])
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


def read_counts(path, maximum):
    """A list of whole numbers 1..maximum from .npy or JSON; InputError names the first that is not."""
    values = read_npy(path) if Path(path).suffix == ".npy" else read_json(path)
    if not isinstance(values, list) or not values:
        raise InputError(f"{path}: expected a list of at least one whole number")
    for index, value in enumerate(values):
        if type(value) is not int or not 1 <= value <= maximum:
            raise InputError(f"{path}: entry {index}: expected a whole number from 1 to {maximum}, found {value!r}")
    return values


def unaccounted(totals):
    """Arrived tokens that are neither emitted, discarded nor buffered: 0 in a sound account."""
    return totals["arrived_tokens"] - sum(totals[f"{name}_tokens"] for name in ("emitted", "discarded", "buffered"))


def replay_files(options):
    """Replay the lengths file; print its totals and check the account and the proposition."""
    lengths = read_counts(options.lengths, LONGEST_DOCUMENT)
    refill = read_counts(options.refill, len(lengths))
    if sum(refill) != len(lengths):
        raise InputError(f"{options.refill}: expected batches of {len(lengths)} documents in all, found {sum(refill)}")
    settings = {"capacity": options.capacity, "buffer_size": options.buffer_size, "rows": options.rows}
    totals = replay(lengths, refill, lossless=POLICIES[options.policy], **settings)
    for name, value in totals.items():
        print(f"{name}: {value}")
    checks, left, selected = Checks(), unaccounted(totals), totals["protected_selected"]
    checks.expect(left == 0, f"arrived = emitted + discarded + buffered, {left} left over")
    checks.expect(selected == 0, f"{selected} selections of a protected document")
    if options.output:
        write_atomic(options.output, canonical_json({**totals, **settings, "policy": options.policy}))
        print(f"totals: {options.output}")
    return checks.close()


def positive(text):
    """A whole number above 0, for argparse."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, found {text!r}")
    return int(text)


def main(argv=None):
    """Run the self-test or replay a stream; 0 all holds, 1 something is false, 2 could not check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--self-test", action="store_true")
    mode.add_argument("--lengths", metavar="FILE", help="document lengths, .npy or .json")
    parser.add_argument("--size", type=positive, default=4, help="documents of the largest small world (default 4)")
    parser.add_argument("--refill", metavar="FILE", help="documents in each refill batch of a pass, .npy or .json")
    for name in ("--capacity", "--buffer-size", "--rows"):
        parser.add_argument(name, type=positive)
    parser.add_argument("--policy", choices=POLICIES)
    parser.add_argument("--output", metavar="FILE", help="write the totals here as JSON")
    options = parser.parse_args(argv)
    if options.self_test:
        return self_test(options.size)
    required = ("refill", "capacity", "buffer_size", "rows", "policy")
    if missing := [name for name in required if getattr(options, name) is None]:
        raise InputError(f"--lengths also needs --{' --'.join(missing).replace('_', '-')}")
    return replay_files(options)


if __name__ == "__main__":
    sys.exit(run_script(main))
