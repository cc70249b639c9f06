"""The one form every corpus takes: parquet shards of texts, read a row group at a time.

The order of documents is the order of shards, row groups and rows. The same documents give the same bytes on every
machine with the pinned pyarrow.
"""

import itertools
from contextlib import contextmanager

from evidence import InputError


def write_shard(path, rows, columns, group_documents):
    """Write tuples of strings as a parquet file with row groups of `group_documents` rows; return the row count."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(column, pa.large_string()) for column in columns])
    options = {"compression": "zstd", "compression_level": 3, "use_dictionary": False, "write_statistics": False}
    rows, count = iter(rows), 0
    with pq.ParquetWriter(path, schema, store_schema=False, **options) as writer:
        while group := list(itertools.islice(rows, group_documents)):
            writer.write_table(pa.table(list(map(list, zip(*group))), schema=schema), row_group_size=group_documents)
            count += len(group)
    return count


@contextmanager
def reading(path):
    """Name the file in what pyarrow says when it cannot be read, at its opening or at a damaged page."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: not a readable parquet file: {' '.join(str(error).split())}") from None


def open_parquet(path, column):
    """A pyarrow ParquetFile with a text column of that name; InputError when the file or the column is not so."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading(path):
        file = pq.ParquetFile(path)
    try:
        kind = file.schema_arrow.field(column).type
    except KeyError:
        raise InputError(f"{path}: no column {column!r}; it has {', '.join(file.schema_arrow.names)}") from None
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise InputError(f"{path}: column {column!r} holds {kind}, expected text")
    return file


def column_texts(column, path, first_row):
    """The strings of an arrow column; a null or a text that is not UTF-8 raises InputError naming file and row."""
    texts = []
    for row, value in enumerate(column, first_row):
        try:
            text = value.as_py()
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: row {row}: not UTF-8: {error}") from None
        if text is None:
            raise InputError(f"{path}: row {row}: the text is null; drop the row or write an empty text")
        texts.append(text)
    return texts


def read_row_group(path, group, column):
    """(texts, number of the first row) of one row group of a shard."""
    file = open_parquet(path, column)
    first_row = sum(file.metadata.row_group(index).num_rows for index in range(group))
    with reading(path):
        texts = file.read_row_group(group, columns=[column])[column]
    return column_texts(texts, path, first_row), first_row
