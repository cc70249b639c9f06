"""Is the archive at this address the published supplement, and is its folder whole?

Reads   an http(s) address, or a .tar.gz file here, whose members lie in one folder such as supplement_v1/
Writes  DIR, which must not exist: that folder's content, complete and checked, or nothing. For an address it also
        keeps DIR.tar.gz, and until that is complete DIR.tar.gz.part, which the same command resumes
Needs   Python 3.11.4 or newer; for an address the package requests
About   the time of the download

    python fetch_supplement.py URL|FILE --sha256 HEX --out DIR

The SHA-256 is compared before anything is unpacked. The archive's members must be exactly the files that its
manifest.sha256 lists, and the unpacked files must have the listed SHA-256. A killed call may leave a folder .DIR.*,
which may be deleted, but never DIR.

Exit code 0: the folder is the published one. 1: the SHA-256, a member or a file is not what it must be, and DIR was
not made. 2: the archive could not be had or written.
"""

import argparse
import os
import shlex
import sys
import tarfile
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent))

import evidence
from bundles.archive import MANIFEST, Unsound, unpack
from corpora.transfer import WrongDigest, fetch, is_there
from evidence import HEX_DIGEST, Checks, InputError, require, run_script
from files import naming, sha256_file

MB = 10**6


@contextmanager
def progress(label):
    """Give a function to call with each count of bytes: a bar on a terminal, else a line at every 5 MB."""
    if sys.stderr.isatty() and find_spec("tqdm"):
        from tqdm import tqdm

        with tqdm(desc=label, unit="B", unit_scale=True) as bar:
            yield bar.update
        return
    done = 0

    def advance(count):
        nonlocal done
        done += count
        if done // (5 * MB) > (done - count) // (5 * MB):
            print(f"{label}: {done // MB} MB", flush=True)

    yield advance


def download(url, archive, digest):
    """Download `url` to the path `archive`, resuming a partial download. Another file of that name is kept."""
    if is_there(archive, digest):
        print(f"{archive} is here already")
        return
    require(not os.path.lexists(archive), archive,
            f"this is not the file with SHA-256 {digest}; move it away, or choose another --out")
    require(find_spec("requests"), url, "downloading needs the package requests: run `python -m pip install requests`, "
            "or download the archive yourself and give its path")
    print(f"downloading {url} to {archive}", flush=True)
    with naming(archive), progress("downloaded") as advance:
        fetch(url, archive, digest, progress=advance)


def archive_at(source, out, digest):
    """Return the path of the archive, which is downloaded beside `out` when the source is an address."""
    if source.lower().startswith(("http://", "https://")):
        archive = out.with_name(f"{out.name}.tar.gz")
        download(source, archive, digest)
        return archive
    require(Path(source).is_file(), source,
            "no such file; expected a .tar.gz, or an address that begins with https:// or http://")
    return Path(source)


def install(source, digest, out, checks):
    """Make the folder `out` from the archive at `source`, if its SHA-256, members and files are what they must be."""
    archive = archive_at(source, out, digest)
    with naming(archive):
        found = sha256_file(archive)
    if found != digest:
        raise WrongDigest(f"{archive}: SHA-256 differs: expected {digest}, found {found}")
    checks.expect(True, f"{archive}: {archive.stat().st_size:,} bytes, SHA-256 {digest}")
    with naming(out), TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as temporary:
        try:
            folder, listed = unpack(archive, Path(temporary))
        except Unsound as error:
            checks.expect(False, f"{archive}: refused: {error}")
            return
        checks.expect(True, f"{folder.name}/{MANIFEST}: {listed} files listed, none missing, changed or extra")
        folder.rename(out)


def sha256_argument(text):
    if not HEX_DIGEST.fullmatch(text.lower()):
        raise argparse.ArgumentTypeError(f"expected 64 hex digits, found {text!r}")
    return text.lower()


def main(argv=None):
    """Fetch one supplement; return 0 when it is whole, 1 when something about it is false."""
    parser = evidence.parser(__doc__)
    parser.add_argument("source", metavar="URL|FILE", help="an http(s) address, or the path of the archive")
    parser.add_argument("--sha256", required=True, type=sha256_argument, metavar="HEX", help="SHA-256 of the archive")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="the folder to make")
    options = parser.parse_args(argv)
    require(hasattr(tarfile, "data_filter"), "Python", f"3.11.4 or newer is needed to unpack, this is {sys.version}")
    out, checks = Path(os.path.abspath(options.out)), Checks()
    if os.path.lexists(out):
        raise InputError(f"{out}: exists; nothing is overwritten, choose another --out")
    with naming(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
    try:
        install(options.source, options.sha256, out, checks)
    except WrongDigest as error:
        checks.expect(False, error)
    code = checks.close()
    if code == 0:
        print(f"The supplement is in {out}. To check what it says: cd {shlex.quote(str(out))} && python verify_all.py")
    return code


if __name__ == "__main__":
    sys.exit(run_script(main))
