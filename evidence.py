"""Canonical JSON, SHA-256 and manifests: what every frozen file of this project rests on.

Standard library only, so that a supplement can carry a copy of this file and be checked anywhere.
Every user's mistake is raised as `InputError`, whose text names the file, the key, what was expected and what
was found; `run_script` turns it into one line on stderr and exit code 2.

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
import tempfile
import traceback
from pathlib import Path, PurePosixPath

HEX_DIGEST = re.compile(r"[0-9a-f]{64}")


class InputError(Exception):
    """A file, key or argument is not what it must be: nothing was checked, nothing was written."""


def require(holds, where, text):
    """Raise InputError with "where: text" unless `holds`."""
    if not holds:
        raise InputError(f"{where}: {text}")


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
    except BrokenPipeError:  # the reader, such as head, has left: what is unsaid must not fail again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except (InputError, OSError) as error:
        print(f"{script}: {error}", file=sys.stderr)
        return 2
    except MemoryError as error:
        print(f"{script}: not enough memory: {error}", file=sys.stderr)
        return 2
    except Exception:
        traceback.print_exc()
        return 2
    except KeyboardInterrupt:
        print(f"{script}: interrupted; finished parts are kept", file=sys.stderr)
        return 130


class Checks:
    """The checks of one verifier run: a line each with the numbers found, then a count, then the exit code."""

    def __init__(self):
        self.made = self.failed = 0

    def expect(self, holds, text):
        """Print one check, `text` carrying its numbers, and count it."""
        self.made += 1
        self.failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {text}", flush=True)

    def equal(self, what, stated, found, shown=None):
        """One check: the stated JSON value is the one found. Its line is `shown`, or the first place that differs."""
        difference = first_difference(stated, found, what)
        shown = shown or f"{what}: {f'{len(found)} entries' if isinstance(found, (dict, list)) else found}"
        self.expect(difference is None, difference or shown)

    def file(self, name, digest, root):
        """One check: the file `name` below `root` has this SHA-256; left out, and said to be, when it is not there."""
        if (root / name).exists():
            self.equal(name, digest, sha256_file(root / name))
        else:
            print(f"left out {name}: not here")

    @contextlib.contextmanager
    def attempt(self, where):
        """Checks inside that break, since the evidence lacks or bends what it must hold, are one that failed."""
        try:
            yield
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            self.expect(False, f"{where}: not the evidence of this question: {type(error).__name__}: {error}")

    def close(self):
        """Print the count; 0 when all held, 1 when one failed; InputError when nothing was checked."""
        if not self.made:
            raise InputError("nothing was checked")
        print(f"{self.made} checks, {self.failed} failed")
        return 1 if self.failed else 0


# ------------------------------------------------------------------------------------------ digests


def sha256_bytes(data):
    """Lower-case hex SHA-256 of bytes (or any buffer)."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path):
    """Lower-case hex SHA-256 of a file's bytes; InputError when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def require_digest(path, expected):
    """InputError unless the file at `path` has the SHA-256 `expected`."""
    found = sha256_file(path)
    if found != expected:
        raise InputError(f"{path}: SHA-256 differs: expected {expected}, found {found}")


def input_list(paths, root):
    """The `inputs` entry of an evidence file: [{"path": relative to root, "sha256": hex}], sorted by path."""
    named = {Path(os.path.relpath(path, root)).as_posix(): path for path in paths}  # data/ may be a link elsewhere
    return [{"path": _safe_name(name, root), "sha256": sha256_file(path)} for name, path in sorted(named.items())]


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
    """UTF-8 bytes of `value`: sorted keys, two spaces, LF, one final newline.

    The same content gives the same bytes whatever the key order. NaN, infinity, non-string keys and non-JSON
    types raise InputError naming the key's path; so do, without it, lone surrogates and endless nesting.
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
            raise ValueError(f"key {key!r} stands twice")
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
    """Strict JSON from bytes: UTF-8, no NaN or infinity (nor 1e999), no repeated key; InputError naming `where`."""
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_refuse_constant,
                          parse_float=_finite)
    except RecursionError:
        raise InputError(f"{where}: not strict JSON: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{where}: not strict JSON: {error}") from None


def read_json(path):
    """Strict JSON from a file; InputError when it is missing or broken."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    return parse_json(data, path)


def read_json_if_there(path):
    """Strict JSON from a file; None when there is none, which is said."""
    if Path(path).exists():
        return read_json(path)
    print(f"left out {path}: not here")
    return None


def require_keys(value, keys, where):
    """InputError unless `value` is an object with exactly the given keys; missing and unknown ones are named."""
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected an object, found {type(value).__name__}")
    missing, unknown = sorted(set(keys) - set(value)), sorted(set(value) - set(keys))
    if missing:
        raise InputError(f"{where}: missing key {', '.join(missing)}")
    if unknown:
        raise InputError(f"{where}: unknown key {', '.join(unknown)}")


# -------------------------------------------------------------------------------------------- files


def write_atomic(path, data):
    """Write bytes beside `path`, flush them to disk, and rename: a reader sees the old file or the whole new one."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path, value):
    """Write `value` as canonical JSON, atomically."""
    write_atomic(path, canonical_json(value))


def first_difference(old, new, where="$"):
    """The path of the first place where two JSON values differ, with both values; None when they are equal."""
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
        found = (first_difference(*pair, f"{where}[{i}]") for i, pair in enumerate(zip(old, new)))
        return next(filter(None, found), None)
    return None if old == new and type(old) is type(new) else f"{where}: frozen {old!r}, new {new!r}"


def freeze_json(path, value):
    """Write `value` once. An existing file must hold the same bytes; else InputError names the first difference."""
    data = canonical_json(value)
    if not Path(path).exists():
        write_atomic(path, data)
    elif Path(path).read_bytes() != data:
        difference = first_difference(read_json(path), parse_json(data, "new")) or "the bytes, not the content"
        raise InputError(f"{path}: frozen, and the new content differs at {difference}")


# ---------------------------------------------------------------------------------------- manifests


def _safe_name(name, where):
    """The name, when it is the one spelling of a path inside a folder; `-` is standard input to sha256sum."""
    path = PurePosixPath(name)
    if (path.is_absolute() or ".." in path.parts or name in (".", "-") or name != path.as_posix()
            or "\\" in name or not name.isprintable()):
        raise InputError(f"{where}: unsafe path {name!r}")
    return name


def format_manifest(digests):
    """Bytes of a sha256sum list from {relative path: hex}: sorted by path, two spaces, LF, no byte-order mark."""
    return "".join(f"{digests[_safe_name(name, 'manifest')]}  {name}\n" for name in sorted(digests)).encode()


def read_manifest(path):
    """{relative path: hex digest} of a sha256sum list.

    CRLF ends, a byte-order mark, upper-case digests and the binary marker `*` are read as what they mean. An empty
    list, a malformed line, an unsafe path, a path listed twice and the list naming itself raise InputError with the
    line number.
    """
    path = Path(path)
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8") from None
    digests = {}
    for number, line in enumerate(lines, 1):
        line = line.removesuffix("\r")
        if not line:
            continue
        where, digest, name = f"{path}:{number}", line[:64].lower(), line[66:]
        if not HEX_DIGEST.fullmatch(digest) or line[64:66] not in ("  ", " *"):
            raise InputError(f"{where}: expected 64 hex digits, two spaces and a path, found {line!r}")
        if _safe_name(name, where) in digests:
            raise InputError(f"{where}: {name} is listed twice")
        if name == path.name:
            raise InputError(f"{where}: the list names itself")
        digests[name] = digest
    if not digests:
        raise InputError(f"{path}: an empty list checks nothing")
    return digests


def manifest_findings(digests, root):
    """Every way the tree under `root` departs from {relative path: hex}: missing, changed, symlink, extra."""
    root = Path(root)
    findings = []
    for name, digest in sorted(digests.items()):
        path = root / name
        if any(part.is_symlink() for part in [path, *path.parents] if root in part.parents):
            findings.append(f"{name}: symlink")
        elif not path.is_file():
            findings.append(f"{name}: missing")
        elif (found := sha256_file(path)) != digest:
            findings.append(f"{name}: changed: expected {digest}, found {found}")
    on_disk = {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_symlink() or not p.is_dir()}
    findings += [f"{name}: extra" for name in sorted(on_disk - set(digests))]
    return findings
