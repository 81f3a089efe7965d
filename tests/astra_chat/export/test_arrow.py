"""Parquet: typed and described columns that pandas, DuckDB and datasets read."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import pytest
from pyarrow import parquet

from astra_chat.analysis.recorded_run import load_transcript
from astra_chat.analysis.rows import EvaluationRow
from astra_chat.export.arrow import parquet_bytes
from astra_chat.export.chats import chat_examples
from astra_chat.export.filters import Filter
from astra_chat.export.writing import json_lines
from tests.recorded_files import EXAMPLES

EXAMPLE = EXAMPLES / "h200/merge_state_v2.jsonl"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = load_transcript(EXAMPLE).evaluations
    path = tmp_path_factory.mktemp("parquet") / "runs.parquet"
    path.write_bytes(parquet_bytes(EvaluationRow, rows, {"license": "MIT"}))
    return path


def test_pandas_reads_it(file: Path) -> None:
    frame = pd.read_parquet(file)
    assert list(frame.columns) == list(EvaluationRow.model_fields)
    assert frame.loc[frame["confirms"], "candidate"].tolist() == ["c23acddfe14c"]
    assert len(frame["cases"].iloc[0]) == 14 and frame["cases"].iloc[0][0]["baseline_us"] > 0


def test_duckdb_reads_it(file: Path) -> None:
    with duckdb.connect() as database:
        found = database.execute(
            "select verdict, count(*), max(ratio) from read_parquet(?) group by all order by all",
            [str(file)],
        ).fetchall()
        nested = database.execute(
            "select count(*), avg(c.ratio) from (select unnest(cases) as c from read_parquet(?))",
            [str(file)],
        ).fetchone()
    assert [row[:2] for row in found] == [
        ("accepted", 3),
        ("build_failed", 1),
        ("tie", 3),
        ("wrong", 1),
    ]
    assert nested is not None and nested[0] == 84


@pytest.mark.second_tier
def test_datasets_reads_it_and_chat_examples(file: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="extra `hub`")

    rows = datasets.load_dataset(
        "parquet", data_files=str(file), split="train", cache_dir=str(tmp_path)
    )
    assert rows.num_rows == 8 and rows[0]["basis"] == "measured"
    chats = tmp_path / "chats.jsonl"
    chats.write_bytes(json_lines(chat_examples(load_transcript(EXAMPLE), Filter())))
    examples = datasets.load_dataset(
        "json", data_files=str(chats), split="train", cache_dir=str(tmp_path)
    )
    assert [message["role"] for message in examples[0]["messages"]][2] == "assistant"


def test_columns_are_described_also_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "none.parquet"
    path.write_bytes(parquet_bytes(EvaluationRow, [], {"license": "MIT"}))
    schema = parquet.read_schema(path)
    assert schema.metadata[b"license"] == b"MIT"
    assert schema.field("ratio").metadata[b"description"].startswith(b"Speedup over the baseline")
    assert pd.read_parquet(path).empty
