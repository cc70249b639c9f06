"""The documents of a user's own files: parquet, JSON lines (plain or gzipped), or plain text, a document a file."""

import glob
import gzip
import json
import zlib
from pathlib import Path

from corpora.shards import LARGEST_TEXT, open_parquet, row_group_texts
from evidence import InputError, require
from files import naming

TEXT_KINDS = (".txt", ".text", ".md", ".markdown", ".rst", ".tex", ".org", ".html", ".htm", ".xml")
JSON_KINDS = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
PARQUET_KINDS = (".parquet",)
KINDS = (*PARQUET_KINDS, *JSON_KINDS, *TEXT_KINDS)


# ------------------------------------------------------------------------------------------ which files


def _is_hidden(path, folder):
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _files_of_folder(folder):
    """Return the files of a folder, at any depth, of the first of these kinds that it holds: parquet, JSON, text.

    The pages that describe a data set lie beside its parquet or JSON files and are no documents of it.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not _is_hidden(path, folder))
    for kinds in (PARQUET_KINDS, JSON_KINDS, TEXT_KINDS):
        found = [path for path in files if path.name.lower().endswith(kinds)]
        if found:
            return found
    raise InputError(f"{folder}: none of its {len(files)} files is of a known kind; expected {', '.join(KINDS)}")


def expand(names):
    """Return the Paths of files, folders and patterns, in the order given, and sorted within a folder or pattern.

    In a pattern `*` stays within a folder and `**` stands for folders of any depth. InputError names what matches
    nothing, and a file that is named twice.
    """
    paths = []
    for name in map(str, names):
        if Path(name).is_dir():
            paths += _files_of_folder(Path(name))
        elif Path(name).exists() or not glob.has_magic(name):
            with naming(name):
                Path(name).stat()
            paths.append(Path(name))
        else:
            found = sorted(path for path in map(Path, glob.glob(name, recursive=True)) if path.is_file())
            require(found, name, "no file matches this pattern; check it with ls")
            paths += found
    twice = sorted({str(path) for path in paths if paths.count(path) > 1}) if len(set(paths)) < len(paths) else []
    require(not twice, ", ".join(twice), "named more than once; its documents would count twice")
    return paths


# ---------------------------------------------------------------------------------------- readers of kinds


def _parquet_documents(path, column):
    file = open_parquet(path, column)
    for group in range(file.num_row_groups):
        for row, text in row_group_texts(file, path, group, column):
            yield f"{path}: row {row}", text


class _Object(list):
    """The (key, value) pairs of a JSON object, of which only the field that is read has to be sound."""


def _json_text(line, column, where):
    try:
        record = json.loads(line.decode(), object_pairs_hook=_Object, parse_int=float)
    except RecursionError:
        raise InputError(f"{where}: not JSON: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{where}: not JSON: {error}; expected one object a line (`jq -c '.[]'` makes them)") from None
    require(isinstance(record, _Object), where, f"expected an object with a string under {column!r}")
    values = [value for key, value in record if key == column]
    require(len(values) == 1, where, f"expected one string under {column!r}, found {len(values)}; the keys are "
            f"{', '.join(sorted({key for key, _ in record}))}")
    text = values[0]
    require(isinstance(text, str), where, f"expected a string under {column!r}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{where}: {column!r} is not Unicode text: {error}") from None
    return text


def _lines(file, path):
    """Yield (number, line) of a file of bytes; a line ends at \\n and nowhere else, and has a bounded length."""
    number = 0
    while line := file.readline(4 * LARGEST_TEXT + 1):
        number += 1
        require(len(line) <= 4 * LARGEST_TEXT, f"{path}:{number}",
                f"a line of over {4 * LARGEST_TEXT:,} bytes; split the document")
        yield number, line


def _json_documents(path, column):
    """Yield the documents of a file of JSON lines, without blank lines and without the file's byte-order mark."""
    with naming(path), (gzip.open if path.name.lower().endswith(".gz") else open)(path, "rb") as file:
        try:
            for number, line in _lines(file, path):
                line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if line.strip():
                    where = f"{path}:{number}"
                    yield where, _json_text(line, column, where)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"{path}: cannot be read to its end: {error}") from None


def _text_document(path, column):
    with naming(path):
        require(path.stat().st_size <= 4 * LARGEST_TEXT, path, f"over {4 * LARGEST_TEXT:,} bytes; split the document")
        data = path.read_bytes()
    try:
        yield str(path), data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: {error}") from None


def located_documents(paths, column):
    """Yield (where, text) of every document of the files, in order; `where` names the file and the row or line.

    `column` is the parquet column or the JSON key of the text. InputError names what cannot be read.
    """
    readers = {PARQUET_KINDS: _parquet_documents, JSON_KINDS: _json_documents, TEXT_KINDS: _text_document}
    for path in map(Path, paths):
        reader = next((readers[kinds] for kinds in readers if path.name.lower().endswith(kinds)), None)
        require(reader, path, f"unknown kind of file; expected one of {', '.join(KINDS)}, decompressed or gzipped JSON")
        yield from reader(path, column)


def read_documents(paths, column):
    """Yield the text of every document of the files, in order."""
    for _, text in located_documents(paths, column):
        yield text
