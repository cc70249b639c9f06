"""How is a supplement made: a folder and an archive that anybody can check, and that nobody changes again?

Reads   manifests/supplement_vN.json (what it holds, by patterns, and its verifiers by name), manifests/verifiers.json,
        and the files that match
Writes  supplement_vN/, dist/supplement_vN.tar.gz and manifests/supplement_vN.sha256, the SHA-256 of list and archive
Needs   Python's standard library, and NumPy for the supplement's verify_all.py, which is run first. Run it in a fresh
        clone, where nothing unfinished matches a pattern
About   half a minute

    python freeze_supplement.py v2 [--out DIR] [--incomplete]
    python freeze_supplement.py v1 --rebuild

An existing supplement is never overwritten. Nothing is written when the archive has more than 25 MB, when a file is
missing or linked, or when a verifier does not hold, unless --incomplete allows missing files; then the supplement says
what it was frozen without. A failure takes back what was written; after a kill, a folder without the record
manifests/supplement_vN.sha256 may be deleted.

The archive's bytes depend on the files' names and bytes alone (bundles/archive.py), so --rebuild makes the same archive
from a frozen folder anywhere. A later version is additive: v2 needs v1 here, unchanged. Evidence and protocols that v1
holds are left out of v2; those that differ from v1's need an erratum, which says what was wrong. Code and pages may
differ without one.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import evidence
from bundles.archive import (
    MANIFEST,
    archive_bytes,
    archive_of,
    frozen_findings,
    read_folder,
    record_of,
)
from bundles.contents import VERIFIERS, gather, only_new, read_contents, settle_verifiers
from bundles.page import page
from evidence import InputError, canonical_json, require, run_script, sha256_bytes
from files import naming, write_atomic
from manifest import format_manifest, read_manifest

ROOT = Path(__file__).resolve().parent

LIMIT = 25_000_000


def supplement(version):
    return f"supplement_{version}"


def earlier_supplements(place, version):
    """Return ({archive or list: SHA-256}, {name: SHA-256} of all files) of the earlier versions, each unchanged."""
    records, held = {}, {}
    for name in [supplement(f"v{number}") for number in range(1, int(version[1:]))]:
        record = record_of(place, name)
        findings = frozen_findings(place, name) if record.exists() else [f"no {record}"]
        require(not findings, place / name,
                f"{version} extends it, and it is not here as it was frozen: {'; '.join(findings[:3])}")
        records |= {path.removeprefix("dist/"): digest for path, digest in read_manifest(record).items()}
        held |= read_manifest(place / name / MANIFEST)
    return records, held


def build(root, place, version, incomplete):
    """Return {name: bytes} of a whole supplement, its list included."""
    name = supplement(version)
    content = read_contents(root, name)
    files, empty = gather(root, content["contents"])
    records, held = earlier_supplements(place, version)
    if held:
        files = only_new(files, held, content["errata"])
    verifiers, lacking = settle_verifiers(root, content["verifiers"], files)
    absent = [f"no {pattern}" for pattern in empty] + lacking
    if absent and not incomplete:
        raise InputError(f"incomplete, nothing was frozen (--incomplete leaves out): {'; '.join(absent)}")
    without = [f"{pattern}: no such files" for pattern in empty] + lacking
    listed = {"frozen_without": without, "supplement": name, "verifiers": verifiers}
    files[VERIFIERS] = canonical_json(listed)
    if held:
        files |= {"EXTENDS": format_manifest(records), "errata.json": canonical_json(content["errata"])}
    files["README.md"] = page(name, content, list(files), listed, records).encode()
    files[MANIFEST] = format_manifest({path: sha256_bytes(data) for path, data in files.items()})
    return files


def require_new(place, name):
    """InputError when the supplement was frozen, or when a freeze was stopped before it wrote the record."""
    record = record_of(place, name)
    if os.path.lexists(record):
        raise InputError(f"{record}: exists; what is frozen is never overwritten. Freeze the next version")
    if left := [str(path) for path in (place / name, archive_of(place, name)) if os.path.lexists(path)]:
        raise InputError(f"{' and '.join(left)}: exist without {record}, which a freeze writes last. If a freeze was "
                         "stopped, delete what it left and freeze again; if the record was lost, restore it")


def require_holds(folder):
    """InputError unless every verifier of the supplement holds, run in it by its own verify_all.py."""
    code = subprocess.run([sys.executable, "-B", "verify_all.py"], cwd=folder).returncode
    if code:
        raise InputError(f"verify_all.py in the new supplement ended with exit code {code}; nothing was frozen")


def publish(place, name, files, archive):
    """Write the folder beside its place, check it there and rename it; then write the archive and, last, the record.

    A failure takes all of it back; only a kill can leave something.
    """
    kept, record = archive_of(place, name), record_of(place, name)
    digests = {f"dist/{name}.tar.gz": sha256_bytes(archive), f"{name}/{MANIFEST}": sha256_bytes(files[MANIFEST])}
    with naming(place / name):
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place, prefix=f".{name}.") as temporary:
            folder = Path(temporary) / name
            for path, data in files.items():
                write_atomic(folder / path, data)
            require_holds(folder)
            folder.rename(place / name)
            try:
                write_atomic(kept, archive)
                write_atomic(record, format_manifest(digests))
            except BaseException:
                record.unlink(missing_ok=True)
                kept.unlink(missing_ok=True)
                (place / name).rename(folder)
                raise


def freeze(root, place, version, incomplete):
    """Make the supplement; return its archive's bytes."""
    name = supplement(version)
    require_new(place, name)
    files = build(root, place, version, incomplete)
    archive = archive_bytes(files, name)
    if len(archive) > LIMIT:
        largest = sorted(files, key=lambda path: (-len(files[path]), path))[:3]
        sizes = ", ".join(f"{path} {len(files[path]):,}" for path in largest)
        raise InputError(f"{name}: the archive has {len(archive):,} bytes, allowed are {LIMIT:,}; the largest: {sizes}")
    publish(place, name, files, archive)
    return archive


def rebuild(place, version):
    """Write the archive of a frozen folder again and return its bytes; InputError when the folder has changed."""
    name = supplement(version)
    if findings := frozen_findings(place, name):
        raise InputError(f"{place / name}: not as it was frozen: {'; '.join(findings[:3])}")
    archive = archive_bytes(read_folder(place / name), name)
    write_atomic(archive_of(place, name), archive)
    return archive


def version_name(text):
    if not re.fullmatch(r"v[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError(f"expected v1, v2, ..., found {text!r}")
    return text


def main(argv=None):
    """Freeze or rebuild one supplement; return 0."""
    parser = evidence.parser(__doc__)
    parser.add_argument("version", type=version_name, help="v1, v2, ...")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="where to write, and where earlier versions are (default: root)")
    parser.add_argument("--incomplete", action="store_true", help="freeze although files are missing")
    parser.add_argument("--rebuild", action="store_true", help="only write the archive of the frozen folder again")
    options = parser.parse_args(argv)
    root, place = options.root.resolve(), (options.out or options.root).resolve()
    version = options.version
    archive = rebuild(place, version) if options.rebuild else freeze(root, place, version, options.incomplete)
    print(f"{sha256_bytes(archive)}  {archive_of(place, supplement(version))}  ({len(archive):,} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
