"""Printed numbers as ranges, and the formulas over them that relations.json holds.

A printed decimal represents every value that rounds to it. Arithmetic on ranges gives all results that the printed
digits allow, so a formula is refuted only where no reading of the digits satisfies it.
"""

import ast
import math
import operator
import re
from decimal import ROUND_CEILING, Decimal, localcontext
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import NamedTuple

from evidence import InputError

WORDS = "zero one two three four five six seven eight nine ten".split()


class Range(NamedTuple):
    """All values that a printed number may represent, both ends included."""

    low: Decimal
    high: Decimal

    def __str__(self):
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        if half or middle != middle.to_integral_value():
            return f"{middle:.12g}±{half:.1g}" if half else f"{middle:.12g}"
        return f"{middle.normalize():f}"


def exactly(value):
    """Return the range that holds one exact value."""
    return Range(Decimal(value), Decimal(value))


def read_printed(text, where):
    """Return the range of a printed number: integers, number words and h:m:s are exact, decimals ± half a digit."""
    plain = text.replace(",", "").replace("−", "-")
    if plain.lower() in WORDS:
        return exactly(WORDS.index(plain.lower()))
    if match := re.fullmatch(r"(\d\d):(\d\d):(\d\d(?:\.\d+)?)", plain):
        hours, minutes, seconds = map(Decimal, match.groups())
        return exactly(3600 * hours + 60 * minutes + seconds)
    if not (match := re.fullmatch(r"[+-]?\d*(?:\.(\d+))?", plain)) or not re.search(r"\d", plain):
        raise InputError(f"{where}: expected a printed number, found {text!r}")
    half = Decimal(5).scaleb(-len(match[1]) - 1) if match[1] else Decimal(0)
    return Range(Decimal(plain) - half, Decimal(plain) + half)


# ---------------------------------------------------------------------------------------- formulas


def _corners(function):
    def applied(a, b):
        values = [function(x, y) for x in a for y in b]
        return Range(min(values), max(values))

    return applied


def _divide(a, b):
    if b.low <= 0 <= b.high:
        raise ZeroDivisionError
    return _corners(operator.truediv)(a, b)


def _rising(function):
    return lambda a: Range(function(a.low), function(a.high))


OPERATORS = {
    ast.Add: _corners(operator.add),
    ast.Sub: _corners(operator.sub),
    ast.Mult: _corners(operator.mul),
    ast.Div: _divide,
}
FUNCTIONS = {
    "exp": _rising(Decimal.exp),
    "ln": _rising(Decimal.ln),
    "floor": _rising(lambda x: Decimal(math.floor(x))),
    "ceil": _rising(lambda x: x.to_integral_value(ROUND_CEILING)),
    "round": _rising(lambda x: Decimal(math.floor(x + Decimal("0.5")))),
    "remainder": _corners(lambda x, y: x % y),
    "sum": lambda *terms: Range(sum(t.low for t in terms), sum(t.high for t in terms)),
    "smallest": lambda *terms: Range(min(t.low for t in terms), min(t.high for t in terms)),
    "largest": lambda *terms: Range(max(t.low for t in terms), max(t.high for t in terms)),
    "count": lambda *terms: exactly(len(terms)),
}
COMPARISONS = {
    ast.Eq: ("==", lambda a, b: a.low <= b.high and b.low <= a.high),
    ast.Lt: ("<", lambda a, b: a.low < b.high),
    ast.LtE: ("<=", lambda a, b: a.low <= b.high),
}


class Formula:
    """One claim over named numbers: `a == b`, `a < b` or a chain. A quoted "a.*.b" expands to all matching names."""

    def __init__(self, text):
        self.text = text
        try:
            self.tree = ast.parse(text, mode="eval").body
        except SyntaxError:
            raise InputError(f"relations.json: not a formula: {text!r}") from None
        if not isinstance(self.tree, ast.Compare) or any(type(op) not in COMPARISONS for op in self.tree.ops):
            raise InputError(f"relations.json: expected a comparison with ==, < or <=, found {text!r}")
        self.equates = any(isinstance(op, ast.Eq) for op in self.tree.ops)

    def names(self, numbers):
        """List the names that this claim reads, patterns expanded over `numbers`; InputError when one is missing."""
        found = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute) and (name := ast.unparse(node)) in numbers:
                found.append(name)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found += self._matching(node.value, numbers)
        return sorted(set(found))

    def _one(self, name, numbers):
        if name in numbers:
            return [numbers[name]]
        raise InputError(f"relations.json: no number is named {name!r} in {self.text!r}")

    def _matching(self, pattern, numbers):
        if matching := [name for name in numbers if fnmatchcase(name, pattern)]:
            return matching
        raise InputError(f"relations.json: no number is named {pattern!r} in {self.text!r}")

    def _values(self, node, numbers):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return [numbers[name] for name in self._matching(node.value, numbers)]
        if isinstance(node, ast.Constant):
            return [exactly(str(node.value))]
        if isinstance(node, ast.Attribute):
            return self._one(ast.unparse(node), numbers)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return [Range(-value.high, -value.low) for value in self._values(node.operand, numbers)]
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            sides = [self._values(side, numbers)[0] for side in (node.left, node.right)]
            return [OPERATORS[type(node.op)](*sides)]
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in FUNCTIONS:
            arguments = [value for argument in node.args for value in self._values(argument, numbers)]
            return [FUNCTIONS[node.func.id](*arguments)]
        raise InputError(f"relations.json: cannot read {ast.unparse(node)!r} in {self.text!r}")

    def check(self, numbers):
        """Return (whether it holds, both sides as text) on {name: Range}; what cannot be computed does not hold."""
        with localcontext() as context:
            context.prec = 50
            try:
                sides = [self._values(node, numbers)[0] for node in (self.tree.left, *self.tree.comparators)]
            except ArithmeticError as error:
                return False, f"cannot be computed: {type(error).__name__}"
            comparisons = [COMPARISONS[type(op)] for op in self.tree.ops]
            holds = all(test(*pair) for (_, test), pair in zip(comparisons, pairwise(sides)))
            shown = "".join(f"{side} {sign} " for side, (sign, _) in zip(sides, comparisons))
            return holds, f"{shown}{sides[-1]}"
