"""Lists of files with their SHA-256, as sha256sum writes and reads them: make one, read one, compare a folder with one.

Standard library and `evidence` only. InputError names the list and the line that is wrong.
"""

from pathlib import Path, PurePosixPath

from evidence import HEX_DIGEST
from files import InputError, sha256_file


def require_relative(name, where):
    """Return `name` if it is the one spelling of a path inside a folder; InputError otherwise.

    `-` is refused as well, because sha256sum takes it for standard input.
    """
    path = PurePosixPath(name)
    if (path.is_absolute() or ".." in path.parts or name in (".", "-") or name != path.as_posix()
            or "\\" in name or not name.isprintable()):
        raise InputError(f"{where}: unsafe path {name!r}")
    return name


def format_manifest(digests):
    """Return the bytes of a list of {relative path: hex digest}: sorted by path, two spaces, LF, no byte-order mark."""
    return "".join(f"{digests[require_relative(name, 'manifest')]}  {name}\n" for name in sorted(digests)).encode()


def read_manifest(path):
    """Return {relative path: hex digest} of a list.

    CRLF ends, a byte-order mark, upper-case digests and the binary marker `*` are accepted. InputError names the line
    of a malformed entry, an unsafe path, a path that is listed twice or the list itself, and refuses an empty list.
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
        if require_relative(name, where) in digests:
            raise InputError(f"{where}: {name} is listed twice")
        if name == path.name:
            raise InputError(f"{where}: the list names itself")
        digests[name] = digest
    if not digests:
        raise InputError(f"{path}: an empty list checks nothing")
    return digests


def manifest_findings(digests, root):
    """Return every way in which the folder `root` departs from {relative path: hex}.

    A finding is "path: missing", "path: changed: ...", "path: symlink" or "path: extra".
    """
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
