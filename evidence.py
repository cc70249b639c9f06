"""Canonical JSON, SHA-256, verdicts and exit codes: every frozen file and every script of this project uses them.

Standard library and `files` only, so that a supplement can carry copies and be checked anywhere.
A user's mistake raises `InputError`, whose text names the file, the key, what was expected, what was found and what to
do; `run_script` turns it into one line on stderr and exit code 2.

Exit codes of every script: 0 all holds, 1 something checked is false, 2 could not check.
"""

import argparse
import contextlib
import hashlib
import json
import math
import os
import re
import sys
import traceback
from pathlib import Path

from files import InputError, explain, naming, require, sha256_file, write_atomic

HEX_DIGEST = re.compile(r"[0-9a-f]{64}")


def parser(doc):
    """Return an ArgumentParser whose help shows the module docstring `doc` as it is written."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def run_script(main, argv=None):
    """Run `main(argv)` and return its exit code.

    A user's mistake prints one line and returns 2. An unexpected error prints its traceback and also returns 2, because
    1 means that something checked is false. Characters that the terminal cannot show are escaped.
    """
    script = Path(sys.argv[0]).name
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = main(argv)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader, such as head, has gone; a second failure at exit would print a traceback
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except (InputError, OSError, MemoryError) as error:
        print(f"{script}: {explain(error)}", file=sys.stderr)
        return 2
    except Exception:
        traceback.print_exc()
        return 2
    except KeyboardInterrupt:
        print(f"{script}: interrupted; finished parts are kept", file=sys.stderr)
        return 130


class Checks:
    """The checks of one verifier run: each prints a line with the numbers found; `close` gives the exit code."""

    def __init__(self):
        self.made = self.failed = 0

    def expect(self, holds, text):
        """Count one check and print `text`, which carries the numbers that were found."""
        self.made += 1
        self.failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {text}", flush=True)

    def equal(self, what, stated, found, shown=None):
        """Check that the stated JSON value equals the one found; print `shown`, or the first place that differs."""
        difference = first_difference(stated, found, what)
        shown = shown or f"{what}: {f'{len(found)} entries' if isinstance(found, (dict, list)) else found}"
        self.expect(difference is None, difference or shown)

    def file(self, name, digest, root):
        """Check that the file `name` below `root` has this SHA-256; print a note instead when the file is absent."""
        if (root / name).exists():
            self.equal(name, digest, sha256_file(root / name))
        else:
            print(f"left out {name}: not here")

    @contextlib.contextmanager
    def attempt(self, where):
        """If malformed evidence raises inside this block, count one failed check instead of stopping."""
        try:
            yield
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            self.expect(False, f"{where}: this is not evidence of this question: {type(error).__name__}: {error}")

    def close(self):
        """Print the count and return the exit code; InputError when nothing was checked."""
        if not self.made:
            raise InputError("nothing was checked")
        print(f"{self.made} checks, {self.failed} failed")
        return 1 if self.failed else 0


# ------------------------------------------------------------------------------------------ digests


def sha256_bytes(data):
    """Return the lower-case hex SHA-256 of bytes or any other buffer."""
    return hashlib.sha256(data).hexdigest()


def require_digest(path, expected):
    """Raise InputError unless the file at `path` has the SHA-256 `expected`."""
    found = sha256_file(path)
    if found != expected:
        raise InputError(f"{path}: SHA-256 differs: expected {expected}, found {found}")


def input_list(paths, root):
    """Return the `inputs` entry of an evidence file: [{"path": relative to root, "sha256": hex}], sorted by path."""
    named = {Path(os.path.relpath(path, root)).as_posix(): path for path in paths}  # data/ may be a link elsewhere
    for name in named:
        require(not name.startswith("../"), name, f"expected a file below {root}")
    return [{"path": name, "sha256": sha256_file(path)} for name, path in sorted(named.items())]


# --------------------------------------------------------------------------------------------- JSON


def _refuse_unwritable(value, where):
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InputError(f"{where}: key {key!r} is not a string")
            _refuse_unwritable(item, f"{where}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _refuse_unwritable(item, f"{where}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{where}: {value} is not JSON; write null and a reason")
    elif value is not None and not isinstance(value, (str, bool, int, float)):
        raise InputError(f"{where}: {type(value).__name__} is not a JSON type")


def canonical_json(value):
    """Return the UTF-8 bytes of `value`: sorted keys, two spaces, LF, one final newline.

    The same content gives the same bytes whatever the order of its keys. InputError names the path of NaN, infinity, a
    key that is no string and a value that JSON lacks; it also refuses lone surrogates and endless nesting.
    """
    try:
        _refuse_unwritable(value, "$")
        return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except (UnicodeEncodeError, RecursionError) as error:
        raise InputError(f"$: not JSON: {error}") from None


def _unique_keys(pairs):
    seen = {}
    for key, value in pairs:
        if key in seen:
            raise ValueError(f"key {key!r} occurs twice")
        seen[key] = value
    return seen


def _refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def _finite(text):
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large for a float")
    return value


def parse_json(data, where):
    """Return the value of strict JSON bytes: UTF-8, no NaN or infinity (nor 1e999), no repeated key.

    InputError names `where` when they are anything else.
    """
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_refuse_constant,
                          parse_float=_finite)
    except RecursionError:
        raise InputError(f"{where}: not strict JSON: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{where}: not strict JSON: {error}") from None


def read_json(path):
    """Return the value of a strict JSON file; InputError when it is missing or broken."""
    with naming(path):
        data = Path(path).read_bytes()
    return parse_json(data, path)


def read_json_if_there(path):
    """Return the value of a strict JSON file; print a note and return None when the file is absent."""
    if Path(path).exists():
        return read_json(path)
    print(f"left out {path}: not here")
    return None


def require_keys(value, keys, where):
    """Raise InputError unless `value` is an object with exactly these keys; it names missing and unknown ones."""
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected an object, found {type(value).__name__}")
    missing, unknown = sorted(set(keys) - set(value)), sorted(set(value) - set(keys))
    if missing:
        raise InputError(f"{where}: missing key {', '.join(missing)}")
    if unknown:
        raise InputError(f"{where}: unknown key {', '.join(unknown)}")


# -------------------------------------------------------------------------------------------- files


def write_json(path, value):
    """Write `value` as canonical JSON, atomically."""
    write_atomic(path, canonical_json(value))


def first_difference(old, new, where="$"):
    """Return the path of the first place where two JSON values differ, with both values; None when they are equal."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(set(old) | set(new)):
            if key not in old or key not in new:
                return f"{where}.{key}: only in the {'new' if key in new else 'frozen'} version"
            found = first_difference(old[key], new[key], f"{where}.{key}")
            if found:
                return found
        return None
    if isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            return f"{where}: {len(old)} entries frozen, {len(new)} new"
        found = (first_difference(*pair, f"{where}[{i}]") for i, pair in enumerate(zip(old, new, strict=True)))
        return next(filter(None, found), None)
    return None if old == new and type(old) is type(new) else f"{where}: frozen {old!r}, new {new!r}"


def freeze_json(path, value):
    """Write `value` once; InputError names the first difference from an existing file with other bytes."""
    data = canonical_json(value)
    if not Path(path).exists():
        write_atomic(path, data)
    elif Path(path).read_bytes() != data:
        difference = first_difference(read_json(path), parse_json(data, "new")) or "the bytes, not the content"
        raise InputError(f"{path}: frozen, and the new content differs at {difference}")
