"""How is a supplement made: a folder and an archive that anybody can check, and nobody changes again?

    freeze_supplement.py v1 [--out DIR] [--incomplete]
    freeze_supplement.py v1 --rebuild

Reads   manifests/supplement_v1.json (what it holds, by patterns, and how it is checked) and the files that match
Writes  supplement_v1/, dist/supplement_v1.tar.gz and manifests/supplement_v1.sha256 (SHA-256 of list and archive), or
        nothing: an existing one is never overwritten, nor one made above 25 MB, or with a part missing or false, or of
        linked files. What fails midway is taken back, save an empty dist/. The record comes last: what a killed call
        left is there without it, and may be deleted
Needs   Python's standard library, and what the supplement's verifiers need (NumPy): its verify_all.py is run first.
        Run it in a fresh clone, where nothing unfinished matches a pattern
About   half a minute on one core

The archive's bytes depend on the files' names and bytes alone (bundles/archive.py says why), so --rebuild makes it again
from a frozen folder anywhere. A later version is additive: `v2` extends v1, which must be here unchanged, and holds
just what v1 lacks or an erratum replaces, besides the few files that each needs to be checked alone. --incomplete
leaves out whatever has no files yet, and the supplement says so.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Python leaves it out under -I or PYTHONSAFEPATH

from bundles.archive import (
    MANIFEST,
    archive_bytes,
    archive_of,
    frozen_findings,
    naming,
    read_folder,
    record_of,
)
from bundles.names import name_findings
from bundles.page import matches, page
from evidence import InputError, canonical_json, read_json, require_keys, run_script, sha256_bytes, write_atomic
from manifest import format_manifest, read_manifest

ROOT = Path(__file__).resolve().parent

LIMIT = 25_000_000
# A supplement must be checked without another.
EACH = ("LICENSE", "evidence.py", "files.py", "manifest.py", "bundles/names.py", "bundles/archive.py", "verify_all.py")


def supplement(version):
    return f"supplement_{version}"


# ---------------------------------------------------------------------------------------- what goes in


def read_contents(root, version):
    """manifests/supplement_vN.json; InputError when its keys are not those."""
    path = root / "manifests" / f"{supplement(version)}.json"
    content = read_json(path)
    require_keys(content, ("about", "contents", "errata", "limits", "parts"), path)
    for key, keys in (("contents", ("files", "what")), ("errata", ("file", "replaced_by", "wrong")),
                      ("parts", ("command", "evidence", "name", "needs"))):
        for number, entry in enumerate(content[key]):
            require_keys(entry, keys, f"{path}: {key}[{number}]")
    return content


def is_linked(root, name):
    """Whether a file below the root, or a folder that holds it, is a symbolic link: its bytes may be anybody's."""
    return any((root / part).is_symlink() for part in (name, *PurePosixPath(name).parents[:-1]))


def gather(root, contents):
    """({name: bytes} of all files that match a pattern or go into each supplement, patterns that match none)."""
    found, empty = set(EACH), []
    for pattern in [pattern for entry in contents for pattern in entry["files"]]:
        paths = [path for path in root.glob(pattern) if path.is_file() or path.is_symlink()]
        names = {path.relative_to(root).as_posix() for path in paths}
        found |= names
        empty += [] if names else [pattern]
    if findings := name_findings(found):
        raise InputError(f"{root}: not every system can hold these files: {'; '.join(findings)}")
    if linked := [name for name in sorted(found) if is_linked(root, name)]:
        raise InputError(f"{root}: symbolic links, or in linked folders: {', '.join(linked)}; put the files there")
    return {name: (root / name).read_bytes() for name in sorted(found)}, empty


def settle_parts(parts, names):
    """(parts whose evidence patterns are written out as names, ["part: what it lacks"])."""
    settled, lacking = [], []
    for part in parts:
        absent = [pattern for pattern in [part["command"][0], *part["evidence"]] if not matches(names, [pattern])]
        if absent:
            lacking.append(f"{part['name']}: no {', '.join(absent)}")
        else:
            settled.append(part | {"evidence": matches(names, part["evidence"])})
    return settled, lacking


# --------------------------------------------------------------------------------------- what was before


def earlier_supplements(place, version):
    """({archive or list: SHA-256}, {name: SHA-256} of all files) of the versions before, each there and unchanged."""
    records, held = {}, {}
    for name in [supplement(f"v{number}") for number in range(1, int(version[1:]))]:
        record = record_of(place, name)
        if findings := frozen_findings(place, name) if record.exists() else [f"no {record}"]:
            said = "; ".join(findings[:3])
            raise InputError(f"{place / name}: {version} extends it, and it is not here as it was frozen: {said}")
        records |= {path.removeprefix("dist/"): digest for path, digest in read_manifest(record).items()}
        held |= read_manifest(place / name / MANIFEST)
    return records, held


def only_new(files, held, errata):
    """The files that the versions before lack, or that an erratum replaces; InputError for what is neither."""
    wrong = {entry["file"] for entry in errata}
    if unknown := sorted(wrong - set(held)):
        raise InputError(f"errata: {', '.join(unknown)}: in no version before")
    changed = [name for name in set(files) - set(EACH) if name in held and sha256_bytes(files[name]) != held[name]]
    if silent := [name for name in changed if name not in wrong]:
        names = ", ".join(sorted(silent))
        raise InputError(f"{names}: differs from the version before; say in an erratum what was wrong there")
    new = {name: data for name, data in files.items() if name not in held or name in changed or name in EACH}
    if not set(new) - set(EACH):
        raise InputError("nothing here that the versions before lack")
    if absent := [entry["replaced_by"] for entry in errata if entry["replaced_by"] not in (None, *new)]:
        raise InputError(f"errata: replaced_by {', '.join(absent)}: not in this supplement")
    return new


# ---------------------------------------------------------------------------------------------- building


def build(root, place, version, incomplete):
    """{name: bytes} of a whole supplement, its list included."""
    content = read_contents(root, version)
    files, empty = gather(root, content["contents"])
    records, held = earlier_supplements(place, version)
    files = only_new(files, held, content["errata"]) if held else files
    parts, lacking = settle_parts(content["parts"], files)
    if not incomplete and (absent := [f"no {pattern}" for pattern in empty] + lacking):
        raise InputError("incomplete, nothing was frozen (--incomplete leaves out): " + "; ".join(absent))
    without = [f"{pattern}: no such files" for pattern in empty] + lacking
    files["parts.json"] = canonical_json({"parts": parts, "frozen_without": without})
    if held:
        files |= {"EXTENDS": format_manifest(records), "errata.json": canonical_json(content["errata"])}
    files["README.md"] = page(supplement(version), content, list(files), parts, without, records).encode()
    files[MANIFEST] = format_manifest({name: sha256_bytes(data) for name, data in files.items()})
    return files


def require_new(place, name):
    """InputError when the supplement was frozen, or when a freeze was stopped before its record, which comes last."""
    record = record_of(place, name)
    if os.path.lexists(record):
        raise InputError(f"{record}: is there already; what is frozen is never overwritten. Freeze the next version")
    if left := [str(path) for path in (place / name, archive_of(place, name)) if os.path.lexists(path)]:
        raise InputError(f"{' and '.join(left)}: there without {record}, which a freeze writes last. If a freeze was "
                         "stopped, delete what it left and freeze again; if the record was lost, bring it back")


def require_holds(folder):
    """InputError unless the supplement's own check of itself, printed here, holds in every part."""
    code = subprocess.run([sys.executable, "-B", "verify_all.py"], cwd=folder).returncode
    if code:
        raise InputError(f"verify_all.py in the new supplement ended with exit code {code}; nothing was frozen")


def write(path, data, shown=None):
    """write_atomic, whose error names the file: as `shown` when it is written aside first."""
    with naming(shown or path):
        write_atomic(path, data)


def publish(place, name, files, archive):
    """Write the folder beside its place, check it there, give it its name; then write archive and, last, record.

    What fails takes all of it back; only a kill can leave something.
    """
    kept, record = archive_of(place, name), record_of(place, name)
    digests = {f"dist/{name}.tar.gz": sha256_bytes(archive), f"{name}/{MANIFEST}": sha256_bytes(files[MANIFEST])}
    with naming(place / name):
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place, prefix=f".{name}.") as temporary:
            folder = Path(temporary) / name
            for path, data in files.items():
                write(folder / path, data, place / name / path)
            require_holds(folder)
            folder.rename(place / name)
            try:
                write(kept, archive)
                write(record, format_manifest(digests))
            except BaseException:
                record.unlink(missing_ok=True)
                kept.unlink(missing_ok=True)
                (place / name).rename(folder)
                raise


def freeze(root, place, version, incomplete):
    """Make the supplement; its archive's bytes."""
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
    """Write the archive of a frozen folder again; its bytes. InputError when the folder is not as it was frozen."""
    name = supplement(version)
    if findings := frozen_findings(place, name):
        raise InputError(f"{place / name}: not as it was frozen: {'; '.join(findings[:3])}")
    archive = archive_bytes(read_folder(place / name), name)
    write(archive_of(place, name), archive)
    return archive


def version_name(text):
    if not re.fullmatch(r"v[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError(f"expected v1, v2, ..., found {text!r}")
    return text


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", type=version_name, help="v1, v2, ...")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="of the repository (default: this one)")
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="where to write, and where earlier versions are (default: root)")
    parser.add_argument("--incomplete", action="store_true", help="freeze without what has no files yet")
    parser.add_argument("--rebuild", action="store_true", help="only write the archive of the frozen folder again")
    options = parser.parse_args(argv)
    root, place = options.root.resolve(), (options.out or options.root).resolve()
    version = options.version
    archive = rebuild(place, version) if options.rebuild else freeze(root, place, version, options.incomplete)
    print(f"{sha256_bytes(archive)}  {archive_of(place, supplement(version))}  ({len(archive):,} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
