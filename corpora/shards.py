"""The one form that every corpus takes: parquet shards of texts, read in batches of bounded size.

The order of documents is the order of shards, row groups and rows. The same documents give the same bytes on every
machine with the pinned pyarrow.
"""

from contextlib import contextmanager

from evidence import InputError

BATCH_BYTES = 16 << 20  # about so much text is decoded at a time
GROUP_CHARACTERS = 32 << 20  # of text, after which a written row group is closed
LARGEST_TEXT = 1 << 28  # characters of one document
BATCH_ROWS = 1000


def write_shard(path, rows, columns, group_documents):
    """Write tuples of strings as a parquet file and return the row count.

    A row group is closed after `group_documents` rows, or earlier when its texts hold GROUP_CHARACTERS characters.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(column, pa.large_string()) for column in columns])
    options = {"compression": "zstd", "compression_level": 3, "use_dictionary": False, "write_statistics": False}
    group, size, count = [], 0, 0
    with pq.ParquetWriter(path, schema, store_schema=False, **options) as writer:
        def close_group():
            table = pa.table([list(column) for column in zip(*group, strict=True)], schema=schema)
            group.clear()
            writer.write_table(table, row_group_size=group_documents)

        for row in rows:
            group.append(row)
            size, count = size + len(row[0]), count + 1
            if len(group) == group_documents or size >= GROUP_CHARACTERS:
                close_group()
                size = 0
        if group:
            close_group()
    return count


@contextmanager
def reading(path):
    """Name the file in pyarrow's errors, at its opening or at a damaged page; a lack of memory is called one."""
    import pyarrow as pa

    try:
        yield
    except MemoryError as error:
        raise MemoryError(f"{path}: {' '.join(str(error).split())}") from None
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: not a readable parquet file: {' '.join(str(error).split())}") from None


def open_parquet(path, column):
    """Return a pyarrow ParquetFile with a text column of that name; InputError says what the file lacks."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading(path):
        file = pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    try:
        kind = file.schema_arrow.field(column).type
    except KeyError:
        raise InputError(f"{path}: no column {column!r}; it has {', '.join(file.schema_arrow.names)}") from None
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise InputError(f"{path}: column {column!r} holds {kind}, expected text")
    return file


def column_texts(column, path, first_row):
    """Return the strings of an arrow column; a null or a text that is not UTF-8 is an InputError with file and row."""
    texts = []
    for row, value in enumerate(column, first_row):
        try:
            text = value.as_py()
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: row {row}: not UTF-8: {error}") from None
        if text is None:
            raise InputError(f"{path}: row {row}: the text is null; drop the row or write an empty text")
        if len(text) > LARGEST_TEXT:
            raise InputError(f"{path}: row {row}: {len(text):,} characters, over {LARGEST_TEXT:,}; split the document")
        texts.append(text)
    return texts


def _batch_rows(group, column):
    """Return how many rows of a row group hold about BATCH_BYTES of a column, by the sizes that the file states."""
    sizes = [group.column(index) for index in range(group.num_columns)]
    size = sum(chunk.total_uncompressed_size for chunk in sizes if chunk.path_in_schema == column)
    return max(1, min(BATCH_ROWS, group.num_rows, BATCH_BYTES * group.num_rows // max(size, 1)))


def row_group_texts(file, path, group, column):
    """Yield (row in the file, text) of one row group of an open parquet file, of which a batch is held at a time."""
    metadata = file.metadata
    row = sum(metadata.row_group(index).num_rows for index in range(group))
    batches = file.iter_batches(_batch_rows(metadata.row_group(group), column), [group], [column], use_threads=False)
    while True:
        with reading(path):
            batch = next(batches, None)
        if batch is None:
            return
        texts = column_texts(batch.column(0), path, row)
        del batch
        yield from enumerate(texts, row)
        row += len(texts)
