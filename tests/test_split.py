"""A user's documents are held out by their own texts, spread over all files, in little memory."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.split import held_out_rule
from evidence import InputError

ROOT = Path(__file__).resolve().parents[1]


@given(st.lists(st.text(max_size=4), max_size=60))
def test_each_side_has_a_text_and_no_text_is_on_both(texts):
    if len(set(texts)) < 2:
        with pytest.raises(InputError, match="training and validation need one each"):
            held_out_rule(texts, "file")
        return
    rule, held, total = held_out_rule(texts, "file")
    chosen = [text for text in texts if rule(text)]
    assert (len(chosen), len(texts)) == (held, total) and 0 < held < total


def test_about_one_in_twenty_is_held_out_wherever_it_stands_and_whatever_else_is_there():
    texts = [f"text {number}" for number in range(4000)]
    rule, held, _ = held_out_rule(texts, "file")
    assert 140 < held < 260
    assert [sum(map(rule, texts[start : start + 1000])) > 20 for start in range(0, 4000, 1000)] == [True] * 4
    other, _, _ = held_out_rule(texts[1000:][::-1], "file")
    assert [rule(text) for text in texts] == [other(text) for text in texts]


@pytest.mark.slow
def test_texts_of_several_mebibytes_take_little_memory(tmp_path):
    """Splitting a file takes less memory than its texts have bytes, although they are read three times and written."""
    text = "all the words of a long text " * 40_000
    table = pa.table({"text": [f"{number} {text}" for number in range(250)]})
    pq.write_table(table, tmp_path / "big.parquet", row_group_size=25)
    corpus = {"train_files": [str(tmp_path / "big.parquet")], "validation_files": None, "source_column": "text",
              "text_column": "text", "row_group_documents": 1000, "train_shards": ["a"], "validation_shard": "b"}
    code = (f"import resource, sys, pathlib; sys.path.insert(0, {str(ROOT)!r}); import pyarrow.parquet\n"
            "from corpora.split import write_files\n"
            "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10\n"
            f"before = peak(); write_files(pathlib.Path({str(tmp_path)!r}), {corpus!r}); print(peak() - before)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) < table.nbytes
