"""Does the theorem hold for arbitrary lengths, buffers and streams? A machine-checked inductive step.

The theorem of README.md in z3: from a state in which every protected document is buffered, whole and unstarted, neither
an arrival nor a selection leads to a state in which some protected document is not. Lengths, arrival indices, the
capacity, the space left, and the numbers of documents and of buffered spans are arbitrary (quantified); B is 1 to
--largest-buffer. In the base case nothing has arrived and nothing is protected. Each step is a set of named hypotheses
and a goal. Without any one of the hypotheses a finite counterexample must appear, so the proof is not vacuous and no
hypothesis is idle. No hypothesis says that the longest fitting span is preferred: any fitting span may be selected.

    prove_retention.py [--largest-buffer 6]

Reads   nothing
Writes  nothing
Needs   z3-solver, an optional extra: python -m pip install -r requirements-extra.txt
About   20 seconds
"""

import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import evidence
from evidence import Checks, InputError, run_script

TIMEOUT_MS = 60_000
POLICIES = {"crop": False, "lossless": True}


class Documents:
    """Documents as integers (their arrival indices), with their lengths and their state before and after one step.

    With `universe` None the quantifiers range over all integers, so a refutation holds for any number of documents. A
    number restricts them to that many documents, so that a model is a real, finite counterexample.
    """

    def __init__(self, z3, universe=None):
        self.z3, self.universe = z3, universe
        self.capacity, self.space = z3.Ints("capacity space")
        whole, truth = z3.IntSort(), z3.BoolSort()
        self.length = z3.Function("length", whole, whole)
        self.current = [z3.Function(f"current_{when}", whole, whole) for when in "01"]
        self.arrived, self.held, self.started = (
            [z3.Function(f"{name}_{when}", whole, truth) for when in "01"] for name in ("arrived", "held", "started"))

    def every(self, claim):
        """Return the formula that `claim(i)` holds for every document i."""
        if self.universe is None:
            return self.z3.ForAll([i := self.z3.Int("i")], claim(i))
        return self.z3.And([claim(self.z3.IntVal(i)) for i in range(self.universe)])

    def documents(self, prefix, count):
        """Return `count` names and the formula that they are distinct documents."""
        names = [self.z3.Int(f"{prefix}_{j}") for j in range(count)]
        inside = [self.z3.And(name >= 0, name < self.universe) for name in names if self.universe is not None]
        return names, self.z3.And(self.z3.Distinct(names) if count > 1 else True, *inside)

    def largest(self, when, names, limit):
        """Return the formula that `names` are the largest min(limit, N) keys (length, arrival) that have arrived."""
        z3 = self.z3

        def below(i, k):
            return z3.Or(self.length(i) < self.length(k), z3.And(self.length(i) == self.length(k), i < k))

        def no_larger_outside(i):
            outside = z3.And(self.arrived[when](i), self.length(i) > self.capacity, *[i != k for k in names])
            allowed = z3.And([below(i, k) for k in names]) if len(names) == limit else z3.BoolVal(False)
            return z3.Implies(outside, allowed)

        return z3.And(*[self.arrived[when](k) for k in names], self.every(no_larger_outside))

    def untouched(self, when, names):
        """Return the formula that each of `names` is buffered, whole and unstarted."""
        return self.z3.And([self.z3.And(self.held[when](k), self.current[when](k) == self.length(k),
                                        self.z3.Not(self.started[when](k))) for k in names])

    def spans_sound(self, when):
        """Return the formulas that a buffered span belongs to an arrived document and is no longer than it."""
        return {
            "buffered spans have arrived": self.every(
                lambda i: self.z3.Implies(self.held[when](i), self.arrived[when](i))),
            "spans never grow": self.every(
                lambda i: self.z3.Implies(self.held[when](i), self.current[when](i) <= self.length(i))),
        }

    def unchanged(self, i):
        """Return the formula that document i is buffered, cut and started after the step as before it."""
        return self.z3.And([part[1](i) == part[0](i) for part in (self.held, self.current, self.started)])


@dataclass
class Step:
    """One inductive step: definitions, named hypotheses, and the two claims about the state after it."""

    definitions: list
    hypotheses: dict
    goal: object
    invariant: object


def arrival_step(documents, limit, members, members_after):
    """Return the step in which one document arrives; `members` were protected before, `members_after` are now."""
    z3 = documents.z3
    protected, distinct = documents.documents("protected", members)
    now, distinct_now = documents.documents("now", members_after)
    (new,), inside = documents.documents("new", 1)
    long = [documents.length(k) > documents.capacity for k in protected + now]
    hypotheses = {
        "largest keys before": documents.largest(0, protected, limit),
        "largest keys after": documents.largest(1, now, limit),
        "untouched before": documents.untouched(0, protected),
        "only one arrives": documents.every(
            lambda i: documents.arrived[1](i) == z3.Or(documents.arrived[0](i), i == new)),
        "it arrives whole": documents.untouched(1, [new]),
        "nothing is evicted": documents.every(lambda i: z3.Or(i == new, documents.unchanged(i))),
    }
    definitions = [distinct, distinct_now, inside, *long, *documents.spans_sound(0).values()]
    return Step(definitions, hypotheses, documents.untouched(1, now), z3.And(*documents.spans_sound(1).values()))


def selection_step(documents, buffer_size, limit, members, lossless):
    """Return the step in which one span is selected while `members` documents are protected."""
    z3, space = documents.z3, documents.space
    protected, distinct = documents.documents("protected", members)
    spans, distinct_spans = documents.documents("span", buffer_size)
    (chosen,), inside = documents.documents("chosen", 1)
    held, current = documents.held[0], documents.current[0]
    fits = current(chosen) <= space
    gone = z3.Not(documents.held[1](chosen))
    suffix = z3.And(documents.held[1](chosen), documents.current[1](chosen) == current(chosen) - space)
    hypotheses = {
        "long": z3.And([documents.length(k) > documents.capacity for k in protected]),
        "largest keys": documents.largest(0, protected, limit),
        "untouched before": documents.untouched(0, protected),
        "at least B spans buffered": z3.And([held(span) for span in spans]),
        "space within the capacity": space <= documents.capacity,
        "shortest when not fitting": z3.Or(fits, documents.every(
            lambda i: z3.Implies(held(i), current(chosen) <= current(i)))),
        "earliest of equals": z3.Or(fits, documents.every(
            lambda i: z3.Implies(z3.And(held(i), current(i) == current(chosen)), chosen <= i))),
        "others unchanged": documents.every(lambda i: z3.Or(i == chosen, documents.unchanged(i))),
        **documents.spans_sound(0),
    }
    definitions = [distinct, distinct_spans, inside, held(chosen), space >= 1, documents.started[1](chosen),
                   z3.If(fits, gone, suffix) if lossless else gone,
                   documents.every(lambda i: documents.arrived[1](i) == documents.arrived[0](i))]
    return Step(definitions, hypotheses, documents.untouched(1, protected), z3.And(*documents.spans_sound(1).values()))


def steps(z3, buffer_size, limit, universe=None):
    """Return {kind: [its steps for every possible number of protected documents]} for one B."""
    counts = range(limit + 1)
    arrivals = [(p, q) for p, q in itertools.product(counts, counts) if q in (p, p + 1)]
    kinds = {"arrival": [arrival_step(Documents(z3, universe), limit, *pair) for pair in arrivals]}
    for policy, lossless in POLICIES.items():
        settings = [(Documents(z3, universe), buffer_size, limit, p, lossless) for p in counts]
        kinds[f"selection, {policy}"] = [selection_step(*setting) for setting in settings]
    return kinds


def verdict(z3, *formulas):
    """Return "sat", "unsat" or "unknown" for the conjunction of the formulas."""
    solver = z3.Solver()
    solver.set("timeout", TIMEOUT_MS)
    solver.add(*formulas)
    return str(solver.check())


def check_proof(checks, z3, buffer_size):
    """Check that no step leads from a sound state to one that breaks the goal or the invariant."""
    for kind, cases in steps(z3, buffer_size, buffer_size - 1).items():
        verdicts = [verdict(z3, *step.definitions, *step.hypotheses.values(), z3.Not(z3.And(step.goal, step.invariant)))
                    for step in cases]
        checks.expect(set(verdicts) == {"unsat"}, f"B = {buffer_size}, {kind}: negation unsatisfiable in "
                      f"{verdicts.count('unsat')} of {len(cases)} cases, one for each number of protected documents")


def find_break(z3, cases, dropped):
    """Return whether some case without the hypothesis `dropped` has a counterexample to the goal."""
    return any(verdict(z3, *step.definitions, *[rule for name, rule in step.hypotheses.items() if name != dropped],
                       z3.Not(step.goal)) == "sat" for step in cases)


def check_hypotheses(checks, z3, buffer_size):
    """Check that each step can happen, and that the goal can fail without any one hypothesis or with B protected."""
    universe = buffer_size + 2
    for kind, cases in steps(z3, buffer_size, buffer_size - 1, universe).items():
        possible = [verdict(z3, *step.definitions, *step.hypotheses.values()) for step in cases]
        checks.expect(set(possible) == {"sat"}, f"B = {buffer_size}, {kind}: can happen in {possible.count('sat')} of "
                      f"{len(cases)} cases")
        for name in cases[0].hypotheses:
            checks.expect(find_break(z3, cases, name), f"B = {buffer_size}, {kind}: breaks without '{name}'")
    for kind, cases in steps(z3, buffer_size, buffer_size, universe).items():
        if kind != "arrival":
            checks.expect(find_break(z3, cases, None), f"B = {buffer_size}, {kind}: breaks with B protected, not B - 1")


def main(argv=None):
    """Prove the step for every B up to the largest; 0 proved, 1 refuted or undecided, 2 z3 is not installed."""
    parser = evidence.parser(__doc__)
    parser.add_argument("--largest-buffer", type=int, default=6, metavar="B", help="prove it for 1 to B (default 6)")
    options = parser.parse_args(argv)
    if options.largest_buffer < 2:
        raise InputError(f"--largest-buffer: expected at least 2, found {options.largest_buffer}")
    try:
        import z3
    except ImportError:
        raise InputError("z3 is not installed, so nothing was proved; run: python -m pip install -r "
                         "requirements-extra.txt") from None
    checks = Checks()
    for buffer_size in range(1, options.largest_buffer + 1):
        check_proof(checks, z3, buffer_size)
    check_hypotheses(checks, z3, min(3, options.largest_buffer))
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
