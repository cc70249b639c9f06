"""Do the longest documents stay in the buffer, whole and unstarted, at every selection?

--self-test finds the smallest case in which each rule of counterexamples.py breaks the theorem, compares the two
packers of this project on random streams, and follows every case of small_cases.py for the theorem and its corollaries.
--lengths packs a real stream from its lengths alone and prints the exact totals. Nothing of loaders/ is imported.

    packing_checker.py --self-test [--size 4]
    packing_checker.py --lengths data/demo/train/lengths.npy --refill data/demo/train/refill.npy \\
        --capacity 513 --buffer-size 1000 --rows 1000 --policy crop [--output FILE]

Reads   with --lengths: an int64 .npy file or a JSON list of document lengths (tokens, BOS included), and --refill
Writes  with --output: the totals as canonical JSON
Needs   Python's standard library
About   a minute for the self-test, 5 seconds of it with --size 3; 2 seconds for a million selections
"""

import argparse
import array
import ast
import collections
import itertools
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import evidence
from evidence import Checks, InputError, canonical_json, read_json, run_script, write_atomic
from research.reference_packer import ReferencePacker
from research.theorem.counterexamples import BOUNDS, COUNTEREXAMPLES, smallest_witness
from research.theorem.packers import UnsortedPacker, replay
from research.theorem.small_cases import small_cases, walk_case

POLICIES = {"crop": False, "lossless": True}
LONGEST_DOCUMENT = 2**31
CLAIMS = {  # the claim that is counted when it is broken: the states in which it could have been
    "packers differ": "boundaries",
    "account broken": "cases",
    "theorem broken": "guarded boundaries",
    "mass broken": "guarded boundaries",
    "startup broken": "long starts",
    "repetition broken": "long starts",
}

# ------------------------------------------------------------------------------------------- self-test


def check_small_cases(checks, size):
    """Follow every small case under both policies and report each claim with the states that could have broken it."""
    for policy, lossless in POLICIES.items():
        counts, masses = collections.Counter(), collections.defaultdict(set)
        for case in small_cases(size):
            walk_case(case, lossless, counts, masses)
        print(f"{policy}: {counts['cases']} cases, every one of 1..{size} documents of 1..capacity + 3 tokens, every "
              f"refill, capacities 1..4, buffers 1..4; {counts['boundaries']} selections")
        for claim, stake in CLAIMS.items():
            checks.expect(counts[stake] and not counts[claim], f"{policy}: {claim} at {counts[claim]} of "
                          f"{counts[stake]} {stake}")
        checks.expect(counts["bound attained"], f"{policy}: the pass bound ceil(B / r) is attained at "
                      f"{counts['bound attained']} of {counts['long starts']} long starts")
        dependent = sum(len(found) > 1 for found in masses.values())
        checks.expect(masses and not dependent, f"{policy}: protected mass after whole passes depends on the order of "
                      f"arrival in {dependent} of {len(masses)} groups (multiset of lengths, capacity, buffer, passes)")


def random_stream(source):
    """Return (lengths, refill, capacity and buffer size) of a short stream with skewed lengths."""
    sizes = {"capacity": source.randint(2, 64), "buffer_size": source.randint(1, 16)}
    lengths = [1 + int(source.lognormvariate(2.5, 1.2)) for _ in range(source.randint(1, 80))]
    cuts = sorted(source.sample(range(1, len(lengths)), source.randrange(len(lengths))))
    refill = [end - start for start, end in itertools.pairwise([0, *cuts, len(lengths)])]
    return lengths, refill, sizes


def check_random_streams(checks, streams=80, rows=50):
    """Compare every selection of both packers on random streams, `streams` x `rows` rows a policy."""
    for policy, lossless in POLICIES.items():
        source = random.Random(147018)
        differing = broken = guarded = selections = 0
        for _ in range(streams):
            lengths, refill, sizes = random_stream(source)
            settings = {"rows": rows, "lossless": lossless, **sizes}
            slow = selections_of(lengths, refill, packer_type=UnsortedPacker, **settings)
            selections += len(slow)
            differing += slow != selections_of(lengths, refill, packer_type=ReferencePacker, **settings)
            totals = replay(lengths, refill, **settings)
            guarded += totals["protected_documents"] > 0
            broken += totals["protected_selected"] > 0 or unaccounted(totals) != 0
        checks.expect(not differing, f"{policy}: packers differ in {differing} of {streams} random streams, "
                      f"{streams * rows} rows, {selections} selections")
        checks.expect(guarded and not broken, f"{policy}: theorem or account broken in {broken} of these streams, "
                      f"{guarded} with a protected document")


def selections_of(lengths, refill, *, packer_type, rows, **settings):
    """Return every selection of the first `rows` rows."""
    packer, selections = packer_type(lengths, refill, **settings), []
    while packer.row < rows:
        packer.refill()
        selections.append(packer.select())
    return selections


def check_counterexamples(checks):
    """Find a witness for each changed rule, and none for the studied rule in the same cases."""
    for policy, lossless in POLICIES.items():
        tried, witness = smallest_witness(UnsortedPacker, lossless)
        found = witness or f"no witness in {tried} cases within {BOUNDS}"
        checks.expect(witness is None, f"{policy}, the studied rule: {found}")
        for name, packer_type in COUNTEREXAMPLES.items():
            tried, witness = smallest_witness(packer_type, lossless)
            checks.expect(witness, f"{policy}, {name}: {witness or f'no witness in {tried} cases'}")


def self_test(size):
    """Make all checks and return the exit code."""
    checks = Checks()
    check_counterexamples(checks)
    check_random_streams(checks)
    check_small_cases(checks, size)
    return checks.close()


# -------------------------------------------------------------------------------------- a real stream


def read_npy(path):
    """Return the int64 values of a one-dimensional .npy file, read without NumPy."""
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
        raise InputError(f"{path}: expected descr, order, shape {expected} from the file's size, found {form}")
    values.frombytes(data[end:])
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


def read_counts(path, maximum):
    """Return a list of whole numbers 1..maximum from .npy or JSON; InputError names the first entry that is not one."""
    values = read_npy(path) if Path(path).suffix == ".npy" else read_json(path)
    if not isinstance(values, list) or not values:
        raise InputError(f"{path}: expected a list of at least one whole number")
    for index, value in enumerate(values):
        if type(value) is not int or not 1 <= value <= maximum:
            raise InputError(f"{path}: entry {index}: expected a whole number from 1 to {maximum}, found {value!r}")
    return values


def unaccounted(totals):
    """Return the arrived tokens that are neither emitted, discarded nor buffered: 0 in a sound account."""
    return totals["arrived_tokens"] - sum(totals[f"{name}_tokens"] for name in ("emitted", "discarded", "buffered"))


def replay_files(options):
    """Pack the stream of --lengths, print its totals, and check the account and the theorem."""
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
    """Return a whole number above 0, for argparse."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, found {text!r}")
    return int(text)


def main(argv=None):
    """Run the self-test or pack a stream; 0 all holds, 1 something is false, 2 could not check."""
    parser = evidence.parser(__doc__)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--self-test", action="store_true", help="check the theorem on small and random cases")
    mode.add_argument("--lengths", metavar="FILE", help="document lengths, .npy or .json")
    parser.add_argument("--size", type=positive, default=4, help="most documents of a small case (default 4)")
    parser.add_argument("--refill", metavar="FILE", help="documents in each refill batch of a pass, .npy or .json")
    parser.add_argument("--capacity", type=positive, help="tokens of a row, context + 1")
    parser.add_argument("--buffer-size", type=positive, help="documents that are buffered at every selection")
    parser.add_argument("--rows", type=positive, help="full rows to pack")
    parser.add_argument("--policy", choices=POLICIES, help="what becomes of the rest of a cropped document")
    parser.add_argument("--output", metavar="FILE", help="write the totals here as JSON")
    options = parser.parse_args(argv)
    if options.self_test:
        return self_test(options.size)
    required = ("refill", "capacity", "buffer_size", "rows", "policy")
    if missing := [name for name in required if getattr(options, name) is None]:
        raise InputError(f"--lengths also needs {', '.join(f'--{name}'.replace('_', '-') for name in missing)}")
    return replay_files(options)


if __name__ == "__main__":
    sys.exit(run_script(main))
