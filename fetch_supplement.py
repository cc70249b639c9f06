"""Is the archive at this address the published supplement, and is its folder whole?

    fetch_supplement.py URL|FILE --sha256 HEX --out DIR [--archive-mb 32] [--folder-mb 500] [--members 10000]

Reads   an http(s) address, or a .tar.gz that is here, whose members lie in one folder such as supplement_v1/
Writes  DIR, which must not exist: that folder's content, complete and checked, or nothing;
        for an address also DIR.tar.gz, kept, and until it has come DIR.tar.gz.part: the same command resumes it
Needs   Python 3.11; for an address `requests`. About the time of the download, and memory for the unpacked files

The hash is checked before anything is unpacked. Links, devices, paths that lead out, names that not every system
holds, and more than the stated sizes refuse the whole archive. A killed call may leave a folder .DIR.*, never DIR.
Two calls at once for one DIR may spoil each other's download, which the hash finds.
Exit 1: the hash, a member or the folder's own manifest.sha256 is not what it must be. Nothing is unpacked then.
"""

import argparse
import os
import shlex
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Python leaves it out under -I or PYTHONSAFEPATH

from bundles.archive import MANIFEST, folder_findings, naming
from bundles.unpack import Unsafe, describe, read_archive, read_within
from corpora.transfer import Patience, WrongDigest, fetch, is_there
from evidence import HEX_DIGEST, Checks, InputError, run_script, sha256_bytes

MB = 10**6
PATIENCE = Patience(attempts=6, timeout=30.0)
BOUNDS = [
    ("--archive-mb", 32, "most million bytes of the archive"),
    ("--folder-mb", 500, "most million bytes of what it unpacks to"),
    ("--members", 10_000, "most files and folders"),
]


# ----------------------------------------------------------------------------------------- download


@contextmanager
def progress(label):
    """A function to call with each count of bytes: a bar on a terminal with tqdm, a line at every 5 MB elsewhere."""
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


def download(url, archive, digest, largest):
    """Make `archive` the file at `url`, resuming; InputError when another file has its name, WrongDigest."""
    if is_there(archive, digest):
        return print(f"{archive} is here already")
    if os.path.lexists(archive):
        raise InputError(f"{archive}: not the file with SHA-256 {digest}; move it away, or choose another --out")
    if not find_spec("requests"):
        raise InputError(f"{url}: downloading needs the package requests: python -m pip install requests, or download "
                         "the archive yourself and give the file")
    print(f"downloading {url} to {archive}", flush=True)
    with naming(archive), progress("downloaded") as advance:
        fetch(url, archive, digest, PATIENCE, progress=advance, largest=largest)


def read_bounded(path, largest):
    """The bytes of a file; InputError when it is not one or has more than `largest`."""
    if not path.is_file():
        raise InputError(f"{path}: not a file; expected a .tar.gz, or an address that begins with https:// or http://")
    with naming(path), open(path, "rb") as file:
        data = read_within(file, largest)
    if len(data) > largest:
        raise InputError(f"{path}: over {largest:,} bytes; --archive-mb raises the bound")
    return data


# ------------------------------------------------------------------------------------------- folder


def write_files(files, folder):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def unpack(files, top, out, checks):
    """Write the files aside, check them by their own manifest, and only then give the folder its name.

    An empty folder that came to have that name meanwhile is replaced; anything else is left as it is.
    """
    with naming(out), TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as temporary:
        folder = Path(temporary, out.name)
        write_files(files, folder)
        try:
            count, findings = folder_findings(folder)
        except InputError as error:  # the list cannot be read
            count, findings = 0, [str(error).replace(str(folder), top)]
        said = describe(findings) or "none missing, changed or extra"
        checks.expect(not findings, f"{top}/{MANIFEST}: {count} files listed, {said}")
        if not findings:
            folder.rename(out)


# ---------------------------------------------------------------------------------------- arguments


def sha256_argument(text):
    if not HEX_DIGEST.fullmatch(text.lower()):
        raise argparse.ArgumentTypeError(f"expected 64 hex digits, found {text!r}")
    return text.lower()


def count_argument(text):
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, found {text!r}")
    return int(text)


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="URL|FILE", help="an http(s) address, or the archive itself")
    parser.add_argument("--sha256", required=True, type=sha256_argument, metavar="HEX", help="of the archive")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="the new folder")
    for name, default, what in BOUNDS:
        text = f"{what} (default: {default})"
        parser.add_argument(name, type=count_argument, default=default, metavar="N", help=text)
    return parser.parse_args(argv)


def fetched(args, out):
    """The path of the archive, downloaded beside `out` when the source is an address."""
    if not args.source.lower().startswith(("http://", "https://")):
        return Path(args.source)
    archive = out.with_name(f"{out.name}.tar.gz")
    download(args.source, archive, args.sha256, args.archive_mb * MB)
    return archive


def read_checked(args, out, checks):
    """({path: bytes}, the folder's name) of the archive. WrongDigest and Unsafe say what about it is false."""
    archive = fetched(args, out)
    data = read_bounded(archive, args.archive_mb * MB)
    digest = sha256_bytes(data)
    if digest != args.sha256:
        raise WrongDigest(f"{archive}: SHA-256 differs: expected {args.sha256}, found {digest}")
    checks.expect(True, f"{archive}: {len(data):,} bytes, SHA-256 {digest}")
    files, top = read_archive(data, archive, args.folder_mb * MB, args.members)
    size = sum(map(len, files.values()))
    checks.expect(True, f"{top}/: {len(files)} files, {size:,} bytes, plain files with safe names")
    return files, top


def main(argv=None):
    args = parse_arguments(argv)
    out, checks = Path(os.path.abspath(args.out)), Checks()
    if os.path.lexists(out):
        raise InputError(f"{out}: exists; nothing is overwritten, choose another --out")
    with naming(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
    try:
        unpack(*read_checked(args, out, checks), out, checks)
    except (WrongDigest, Unsafe) as error:
        checks.expect(False, error)
    code = checks.close()
    if code == 0:
        print(f"The supplement is in {out}; check what it says: cd {shlex.quote(str(out))} && python verify_all.py")
    return code


if __name__ == "__main__":
    sys.exit(run_script(main))
