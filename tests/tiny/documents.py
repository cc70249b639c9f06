"""Documents of a user, as JSON lines and as wheels."""

import json
import zipfile


def lines_of(texts):
    """The bytes of JSON lines with these texts under the key `text`."""
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


def wheel(path, members):
    """Write a zip of (member name, bytes) at `path`, with the same bytes at any time; return the path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return path


def tree(directory):
    """{relative path: bytes} of every file below a folder."""
    return {p.relative_to(directory).as_posix(): p.read_bytes() for p in directory.rglob("*") if p.is_file()}
