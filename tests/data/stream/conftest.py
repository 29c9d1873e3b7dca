"""Four files of 1,000 rows, as streams."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data.stream.four_files import FILES, Load, loaded


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of 1,000 rows i, t: parquet with row groups of 250, and JSON lines."""
    made = tmp_path_factory.mktemp("rows")
    for file in range(FILES):
        numbers = range(file * 1000, (file + 1) * 1000)
        rows = {"i": list(numbers), "t": [f"text {number}" for number in numbers]}
        pq.write_table(pa.table(rows), made / f"p{file}.parquet", row_group_size=250)
        with open(made / f"j{file}.jsonl", "w") as out:
            out.writelines(json.dumps({"i": i, "t": f"text {i}"}) + "\n" for i in numbers)
    return made


@pytest.fixture
def parquet(folder: Path) -> Load:
    return lambda: loaded("parquet", sorted(map(str, folder.glob("p*.parquet"))))


@pytest.fixture
def lines(folder: Path) -> Load:
    return lambda: loaded("json", sorted(map(str, folder.glob("j*.jsonl"))))


@pytest.fixture(params=["parquet", "lines"])
def load(request: pytest.FixtureRequest) -> Load:
    made: Load = request.getfixturevalue(request.param)
    return made
