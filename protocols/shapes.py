"""What a JSON value must be: its exact keys, types and bounds, stated as data and checked by one function.

A shape is one of these:

Leaf            one value, which must fulfil a predicate
dict            an object with exactly these keys and shapes
{Leaf: shape}   an object with keys of the user's choice, at least one
[shape]         a list of at least one entry, all of the same shape
Nullable        null, or the shape inside
Absent          the shape inside, under a key that may be absent
Kinds           an object whose key `kind` chooses the shape of its other keys
"""

import math
import re
from collections.abc import Callable
from typing import NamedTuple

from evidence import HEX_DIGEST, require, require_keys


class Leaf(NamedTuple):
    """One value: what it must be, in words and as a predicate."""

    expected: str
    holds: Callable[[object], bool]


class Nullable(NamedTuple):
    """A part that may be null, where the study goes without it."""

    shape: object


class Absent(NamedTuple):
    """A part whose key may be absent, where the study goes without it."""

    shape: object


class Kinds(NamedTuple):
    """An object whose key `kind` chooses the shape of its other keys: {kind: dict}."""

    shapes: dict


def integer(least, most):
    """Return the Leaf of an integer from `least` to `most`."""
    return Leaf(f"an integer from {least:,} to {most:,}", lambda v: type(v) is int and least <= v <= most)


def one_of(*values):
    """Return the Leaf of one of these texts."""
    return Leaf("one of " + ", ".join(values), lambda v: type(v) is str and v in values)


def _is_number(value, least, most):
    return type(value) in (int, float) and abs(value) < math.inf and least <= value <= most


def _is_fraction(value):
    return _is_number(value, 0, 1)


def _are_naturals(value, least=0):
    return type(value) is list and all(type(item) is int and least <= item <= LARGE for item in value)


def matching(pattern, expected):
    """Return the Leaf of a text that matches a regular expression as a whole."""
    return Leaf(expected, lambda value: type(value) is str and re.fullmatch(pattern, value) is not None)


LARGE = 1 << 40
COUNT = integer(1, LARGE)
NATURAL = integer(0, LARGE)
SEED = integer(0, (1 << 32) - 1)  # torch's generator on the CPU reads no more bits of a seed
SEED64 = integer(0, (1 << 64) - 1)
POSITIVE = Leaf("a number over 0, at most 1e12", lambda v: _is_number(v, 0, 1e12) and v > 0)
FRACTION = Leaf("a number from 0 to 1", _is_fraction)
BETAS = Leaf("two numbers from 0 to 1", lambda v: type(v) is list and len(v) == 2 and all(map(_is_fraction, v)))
RISING = Leaf("rising positive integers", lambda v: _are_naturals(v, 1) and v and v == sorted(set(v)))
SPAN = Leaf("[first, last) with 0 <= first < last", lambda v: _are_naturals(v) and len(v) == 2 and v[0] < v[1])
FLAG = Leaf("true or false", lambda v: type(v) is bool)
TEXT = Leaf("a text that is not empty", lambda v: type(v) is str and v != "")
NAME = matching(r"[a-z0-9_]{1,100}", "a name of a-z, 0-9 and _")
FILE = matching(r"[\w-][\w.+-]*", "a plain file name")
DIGEST = matching(HEX_DIGEST, "64 hex digits")


def check_shape(value, shape, where):
    """Raise InputError, which names the key, unless `value` has the shape."""
    if isinstance(shape, Nullable):
        if value is None:
            return
        shape = shape.shape
    if isinstance(shape, Absent):
        shape = shape.shape
    if isinstance(shape, Kinds):
        kind, kinds = value.get("kind") if isinstance(value, dict) else None, list(shape.shapes)
        require(kind in kinds, f"{where}.kind", f"expected one of {', '.join(kinds)}, found {kind!r}")
        shape = {"kind": TEXT, **shape.shapes[kind]}
    if isinstance(shape, Leaf):
        require(shape.holds(value), where, f"expected {shape.expected}, found {value!r}")
        return
    if isinstance(shape, list):
        require(isinstance(value, list) and value, where, f"expected a list with entries, found {value!r}")
        value, shape = dict(enumerate(value)), dict(enumerate(shape * len(value)))
    free = next((key for key in shape if isinstance(key, Leaf)), None)
    if free:
        require(isinstance(value, dict) and value, where, f"expected an object with entries, found {value!r}")
        for key in value:
            check_shape(key, free, f"{where}: key")
        shape = dict.fromkeys(value, shape[free])
    present = set(value) if isinstance(value, dict) else set()
    require_keys(value, {key for key, part in shape.items() if key in present or not isinstance(part, Absent)}, where)
    for key, item in value.items():
        check_shape(item, shape[key], f"{where}.{key}")
