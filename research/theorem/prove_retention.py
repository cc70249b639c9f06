"""Does the proposition hold for arbitrary lengths, buffers and streams? A machine-checked inductive step.

The paper's section 3 in z3: from a state in which every protected document is held, whole and unstarted, neither an
arrival nor a selection leads to one in which some protected document is not. Lengths, arrival indices, the capacity,
the space left, the number of documents and of held spans are arbitrary (quantified); B is 1 to --largest-buffer.
The base case, nothing arrived, protects nothing. Each step is a set of named hypotheses and a goal. Without any one of
the hypotheses a finite counterexample must appear: the proof is not vacuous, and no hypothesis is idle.
That the longest fitting span is preferred is no hypothesis: any fitting span may be taken, or the shortest of all.

Reads:   nothing
Writes:  nothing
Needs:   z3-solver, an optional extra: pip install -r requirements-extra.txt
Takes:   a few seconds
Use:     python research/theorem/prove_retention.py [--largest-buffer 6]
"""

import argparse
import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import Checks, InputError, run_script

TIMEOUT_MS = 60_000
POLICIES = {"crop": False, "lossless": True}


class World:
    """Documents as integers (their arrival indices), with their lengths and their state before and after one step.

    `universe` None quantifies over all integers: what is refuted is refuted for any number of documents. A number
    restricts every quantifier to that many documents: what is found is a real, finite counterexample.
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
        """`claim(i)` for every document i."""
        if self.universe is None:
            return self.z3.ForAll([i := self.z3.Int("i")], claim(i))
        return self.z3.And([claim(self.z3.IntVal(i)) for i in range(self.universe)])

    def documents(self, prefix, count):
        """`count` names and the rule that they are distinct documents."""
        names = [self.z3.Int(f"{prefix}_{j}") for j in range(count)]
        inside = [self.z3.And(name >= 0, name < self.universe) for name in names if self.universe is not None]
        return names, self.z3.And(self.z3.Distinct(names) if count > 1 else True, *inside)

    def largest(self, when, names, limit):
        """`names` are the largest min(limit, N_L) keys (length, arrival) among the arrived long documents."""
        z3 = self.z3

        def below(i, k):
            return z3.Or(self.length(i) < self.length(k), z3.And(self.length(i) == self.length(k), i < k))

        def no_larger_outside(i):
            outside = z3.And(self.arrived[when](i), self.length(i) > self.capacity, *[i != k for k in names])
            allowed = z3.And([below(i, k) for k in names]) if len(names) == limit else z3.BoolVal(False)
            return z3.Implies(outside, allowed)

        return z3.And(*[self.arrived[when](k) for k in names], self.every(no_larger_outside))

    def untouched(self, when, names):
        """Each of `names` is held, whole and unstarted."""
        return self.z3.And([self.z3.And(self.held[when](k), self.current[when](k) == self.length(k),
                                        self.z3.Not(self.started[when](k))) for k in names])

    def spans_sound(self, when):
        """A held span belongs to an arrived document and is no longer than it."""
        return {
            "held spans have arrived": self.every(lambda i: self.z3.Implies(self.held[when](i), self.arrived[when](i))),
            "spans never grow": self.every(
                lambda i: self.z3.Implies(self.held[when](i), self.current[when](i) <= self.length(i))),
        }

    def unchanged(self, i):
        """Document i is held, cut and started after the step as before it."""
        return self.z3.And([part[1](i) == part[0](i) for part in (self.held, self.current, self.started)])


@dataclass
class Step:
    """One inductive step: what holds by definition, named hypotheses, and the two claims about the state after it."""

    definitions: list
    hypotheses: dict
    goal: object
    invariant: object


def arrival_step(world, limit, members, members_after):
    """One document arrives: `members` documents were protected, `members_after` are now."""
    z3 = world.z3
    protected, distinct = world.documents("protected", members)
    now, distinct_now = world.documents("now", members_after)
    (new,), inside = world.documents("new", 1)
    long = [world.length(k) > world.capacity for k in protected + now]
    hypotheses = {
        "largest keys before": world.largest(0, protected, limit),
        "largest keys after": world.largest(1, now, limit),
        "untouched before": world.untouched(0, protected),
        "only one arrives": world.every(lambda i: world.arrived[1](i) == z3.Or(world.arrived[0](i), i == new)),
        "it arrives whole": world.untouched(1, [new]),
        "nothing is evicted": world.every(lambda i: z3.Or(i == new, world.unchanged(i))),
    }
    definitions = [distinct, distinct_now, inside, *long, *world.spans_sound(0).values()]
    return Step(definitions, hypotheses, world.untouched(1, now), z3.And(*world.spans_sound(1).values()))


def selection_step(world, buffer_size, limit, members, lossless):
    """One span is selected while `members` documents are protected."""
    z3, space = world.z3, world.space
    protected, distinct = world.documents("protected", members)
    spans, distinct_spans = world.documents("span", buffer_size)
    (chosen,), inside = world.documents("chosen", 1)
    held, current = world.held[0], world.current[0]
    fits = current(chosen) <= space
    gone = z3.Not(world.held[1](chosen))
    suffix = z3.And(world.held[1](chosen), world.current[1](chosen) == current(chosen) - space)
    hypotheses = {
        "long": z3.And([world.length(k) > world.capacity for k in protected]),
        "largest keys": world.largest(0, protected, limit),
        "untouched before": world.untouched(0, protected),
        "at least B spans held": z3.And([held(span) for span in spans]),
        "space within the capacity": space <= world.capacity,
        "shortest when not fitting": z3.Or(fits, world.every(
            lambda i: z3.Implies(held(i), current(chosen) <= current(i)))),
        "earliest of equals": z3.Or(fits, world.every(
            lambda i: z3.Implies(z3.And(held(i), current(i) == current(chosen)), chosen <= i))),
        "others unchanged": world.every(lambda i: z3.Or(i == chosen, world.unchanged(i))),
        **world.spans_sound(0),
    }
    definitions = [distinct, distinct_spans, inside, held(chosen), space >= 1, world.started[1](chosen),
                   z3.If(fits, gone, suffix) if lossless else gone,
                   world.every(lambda i: world.arrived[1](i) == world.arrived[0](i))]
    return Step(definitions, hypotheses, world.untouched(1, protected), z3.And(*world.spans_sound(1).values()))


def steps(z3, buffer_size, limit, universe=None):
    """{kind: [its steps for every possible number of protected documents]} for one B."""
    counts = range(limit + 1)
    arrivals = [(p, q) for p, q in itertools.product(counts, counts) if q in (p, p + 1)]
    kinds = {"arrival": [arrival_step(World(z3, universe), limit, *pair) for pair in arrivals]}
    for policy, lossless in POLICIES.items():
        worlds = [(World(z3, universe), buffer_size, limit, p, lossless) for p in counts]
        kinds[f"selection, {policy}"] = [selection_step(*world) for world in worlds]
    return kinds


def verdict(z3, *formulas):
    """"sat", "unsat" or "unknown"."""
    solver = z3.Solver()
    solver.set("timeout", TIMEOUT_MS)
    solver.add(*formulas)
    return str(solver.check())


def check_proof(checks, z3, buffer_size):
    """No step of any kind leads from a sound state to one that breaks the goal or the invariant."""
    for kind, cases in steps(z3, buffer_size, buffer_size - 1).items():
        verdicts = [verdict(z3, *step.definitions, *step.hypotheses.values(), z3.Not(z3.And(step.goal, step.invariant)))
                    for step in cases]
        checks.expect(set(verdicts) == {"unsat"}, f"B = {buffer_size}, {kind}: negation unsatisfiable in "
                      f"{verdicts.count('unsat')} of {len(cases)} cases, one for each number of protected documents")


def find_break(z3, cases, dropped):
    """Whether some case without the hypothesis `dropped` has a counterexample to the goal."""
    return any(verdict(z3, *step.definitions, *[rule for name, rule in step.hypotheses.items() if name != dropped],
                       z3.Not(step.goal)) == "sat" for step in cases)


def check_hypotheses(checks, z3, buffer_size):
    """Each step can happen; without any one hypothesis, or with B documents protected, the goal can fail."""
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
    """Prove the step for every B up to the largest; 0 proved, 1 refuted or undecided, 2 z3 is not there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest-buffer", type=int, default=6, metavar="B", help="prove for B = 1..B (default 6)")
    options = parser.parse_args(argv)
    if options.largest_buffer < 2:
        raise InputError(f"--largest-buffer: expected at least 2, found {options.largest_buffer}")
    try:
        import z3
    except ImportError:
        raise InputError("z3 is not installed, nothing was proved: pip install -r requirements-extra.txt") from None
    checks = Checks()
    for buffer_size in range(1, options.largest_buffer + 1):
        check_proof(checks, z3, buffer_size)
    check_hypotheses(checks, z3, min(3, options.largest_buffer))
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
