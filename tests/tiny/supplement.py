"""A small supplement, published and not, and tar archives made member by member, honest or hostile."""

import gzip
import hashlib
import io
import random
import tarfile

import pytest

TOP = "supplement_v1"
FILES = {
    "verify_all.py": b"print('0 failed')\n", "deep/er/empty.json": b"",
    "deep/losses.npy": random.Random(2).randbytes(300_000),
}


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def manifest_of(files):
    return "".join(f"{sha256(files[name])}  {name}\n" for name in sorted(files)).encode()


def member(name, content=b"", kind=tarfile.REGTYPE, **fields):
    """(header, content) for make_tar; `fields` are attributes of tarfile.TarInfo."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def make_tar(members, form=tarfile.PAX_FORMAT):
    """Bytes of a tar of the given members, whatever they are."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content) if content else None)
    return file.getvalue()


def named_members(*names):
    """Members of one byte with these names in the folder."""
    return [member(f"{TOP}/{name}", b"x") for name in names]


def bundle_members(files=FILES, manifest=None):
    """The members of a sound supplement of these files, its list included."""
    files = files | {"manifest.sha256": manifest_of(files) if manifest is None else manifest}
    return [member(f"{TOP}/{name}", content) for name, content in files.items()]


def make_bundle(files=FILES, manifest=None):
    """Bytes of its .tar.gz."""
    return gzip.compress(make_tar(bundle_members(files, manifest)), mtime=0)


BUNDLE = make_bundle()
DIGEST = sha256(BUNDLE)
EXPECTED = FILES | {"manifest.sha256": manifest_of(FILES)}


@pytest.fixture
def published(server, tmp_path):
    """The server that offers the supplement, and an empty folder."""
    server.files["v1.tar.gz"] = BUNDLE
    return server, tmp_path


def arguments(source, out, digest=DIGEST, *options):
    """Of fetch_supplement.py."""
    return [str(source), "--sha256", digest, "--out", str(out), *options]


def content_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())
