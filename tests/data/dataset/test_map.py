"""What `map` and `filter` do beyond the golden cases: errors, types, what is kept."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from tests.data.dataset.programs import Lab

from provender.data import ClassLabel, Dataset, Features, Value
from provender.data.cache import TransformCache
from provender.data.errors import (
    ColumnError,
    ColumnLengthError,
    FeatureTypeError,
    TransformError,
)
from provender.errors import SettingsError

N = 3000


@pytest.fixture
def ds() -> Dataset:
    return Dataset.from_dict({"a": list(range(N)), "text": [f"t{i}" for i in range(N)]})


def entries() -> int:
    root = TransformCache.current().folder
    return len(list(root.glob("entries/*/*/manifest.json")))


def test_other_lengths(ds: Dataset) -> None:
    with pytest.raises(ColumnLengthError) as caught:
        ds.map(lambda batch: {"n": batch["a"][:5]}, batched=True)
    text = str(caught.value)
    assert "returned 5 values in 'n' for a batch of 1,000 rows" in text
    assert "remove_columns" in text
    assert "rows 0 to 999" in text
    assert entries() == 0


def test_columns_of_different_length(ds: Dataset) -> None:
    with pytest.raises(ColumnLengthError, match="x: 2, y: 3"):
        ds.map(
            lambda batch: {"x": [1, 2], "y": [1, 2, 3]},
            batched=True,
            remove_columns=ds.column_names,
        )


@pytest.mark.parametrize(
    ("row", "workers"), [(7, None), (1500, None), (2999, None), (2999, 2)], ids=str
)
def test_a_type_that_changes_half_way(ds: Dataset, row: int, workers: int | None) -> None:
    def change(each: dict[str, Any]) -> dict[str, Any]:
        return {"n": each["a"] if each["a"] != row else "text"}

    with pytest.raises(FeatureTypeError) as caught:
        ds.map(change, num_proc=workers)
    assert caught.value.facts["column"] == "n"
    assert caught.value.facts["row"] == row
    text = str(caught.value)
    assert "'n'" in text
    assert f"row {row}" in text
    assert "int" in text
    assert "str" in text
    assert entries() == 0


def test_fractions_after_whole_numbers(ds: Dataset) -> None:
    with pytest.raises(FeatureTypeError, match=r"'n'.*row 2000.*0\.5"):
        ds.map(lambda row: {"n": row["a"] if row["a"] < 2000 else 0.5})
    made = ds.map(
        lambda row: {"n": row["a"] if row["a"] < 2000 else 0.5},
        features=Features({"a": Value("int64"), "text": Value("string"), "n": Value("float64")}),
    )
    assert made[1999]["n"] == 1999.0
    assert made[2000]["n"] == 0.5


@pytest.mark.parametrize("workers", [None, 2], ids=["alone", "two workers"])
def test_none_until_the_type_is_known(ds: Dataset, workers: int | None) -> None:
    made = ds.map(
        lambda row: {
            "n": None if row["a"] < 2500 else "x",
            "m": [] if row["a"] < 2500 else [1.5],
            "always": None,
        },
        num_proc=workers,
    )
    assert made.features["n"] == Value("string")
    assert made.features["m"].feature == Value("float64")
    assert made.features["always"] == Value("null")
    assert made["n"][2499:2501] == [None, "x"]
    assert made["m"][2499:2501] == [[], [1.5]]
    again = ds.map(lambda row: row)
    assert len(again) == N


@pytest.mark.parametrize("workers", [None, 3], ids=["alone", "three workers"])
def test_types_are_found_from_the_first_thousand_rows(ds: Dataset, workers: int | None) -> None:
    def mixed(row: dict[str, Any]) -> dict[str, Any]:
        at = row["a"]
        return {
            "n": 0.5 if at == 999 else at,
            "v": [0.5] if at == 700 else [at],
            "d": {"x": None if at < 800 else "x"},
        }

    made = ds.map(mixed, num_proc=workers)
    assert made.features["n"] == Value("float64")
    assert made.features["v"].feature == Value("float64")
    assert made.features["d"] == {"x": Value("string")}
    assert made[999]["n"] == 0.5
    assert made[2999] == {"a": 2999, "text": "t2999", "n": 2999.0, "v": [2999.0], "d": {"x": "x"}}


def test_types_of_early_rows_that_do_not_go_together(ds: Dataset) -> None:
    for workers in (None, 2):
        with pytest.raises(FeatureTypeError) as caught:
            ds.map(lambda row: {"n": "x" if row["a"] >= 374 else 1}, num_proc=workers)
        # Two workers look at different rows; each tells of the first that it saw.
        assert caught.value.facts["row"] == 374 or (workers and caught.value.facts["row"] > 374)


def test_a_column_asked_for_that_is_not_there(ds: Dataset) -> None:
    for options in ({}, {"batched": True}, {"num_proc": 2}):
        with pytest.raises(ColumnError) as caught:
            ds.map(lambda row: {"n": row["txet"]}, **options)
        assert "'txet'" in str(caught.value)
        assert "Did you mean 'text'?" in str(caught.value)
    with pytest.raises(ColumnError, match="Did you mean 'text'"):
        ds.map(lambda row: row, remove_columns=["texx"])
    with pytest.raises(ColumnError, match="Did you mean 'text'"):
        ds.map(lambda x: x, input_columns="tex")
    with pytest.raises(ColumnError, match="Did you mean 'text'"):
        ds["txt"]
    with pytest.raises(KeyError):
        ds["txt"]


def test_a_column_that_is_new_half_way(ds: Dataset) -> None:
    with pytest.raises(ColumnError) as caught:
        ds.map(lambda row: {"n": 1, "late": 1} if row["a"] >= 2000 else {"n": 1})
    assert "'late' is new" in str(caught.value)
    assert caught.value.facts["row"] == 2000
    assert "From row 2000 on" in str(caught.value)
    made = ds.map(lambda row: {"n": 1, "early": 1} if row["a"] == 900 else {"n": 1})
    assert made["early"][899:902] == [None, 1, None]


def test_a_column_put_into_some_row_in_place(ds: Dataset) -> None:
    def change(row: Any) -> Any:
        if row["a"] == 2345:
            row["late"] = 1
        return row

    with pytest.raises(ColumnError, match="From row 2345 on"):
        ds.map(change)


def test_a_column_name_that_is_no_text(ds: Dataset) -> None:
    with pytest.raises(ColumnError, match=r"row 7 has one named 1 \(int\)") as caught:
        ds.map(lambda row: {1: 2} if row["a"] == 7 else {})
    assert caught.value.facts["row"] == 7
    with pytest.raises(ColumnError, match=r"named 1 \(int\)"):
        ds.map(lambda batch: {1: batch["a"]}, batched=True)


@pytest.mark.parametrize("out", [1, "text", [1], {1, 2}, True], ids=repr)
def test_not_a_dict(ds: Dataset, out: Any) -> None:
    with pytest.raises(TransformError, match="not a dict of columns"):
        ds.map(lambda row: out)
    with pytest.raises(TransformError, match="not a dict of columns"):
        ds.map(lambda batch: out, batched=True)


def test_a_batch_without_lists(ds: Dataset) -> None:
    with pytest.raises(FeatureTypeError, match="not a list of values"):
        ds.map(lambda batch: {"n": 5}, batched=True)


def test_none_for_some_rows(ds: Dataset) -> None:
    with pytest.raises(TransformError, match="returned None for row 1700, columns for rows before"):
        ds.map(lambda row: None if row["a"] == 1700 else {"n": 1})


class Mine(Exception):
    pass


@pytest.mark.parametrize("workers", [None, 2], ids=["alone", "two workers"])
def test_what_the_function_raises(ds: Dataset, workers: int | None) -> None:
    def fail(row: dict[str, Any]) -> dict[str, Any]:
        if row["a"] == 1234:
            raise ZeroDivisionError("no number")
        return {"n": 1}

    with pytest.raises(TransformError) as caught:
        ds.map(fail, num_proc=workers)
    text = str(caught.value)
    assert "raised ZeroDivisionError: no number at row 1234" in text
    assert "{'a': 1234, 'text': 't1234'}" in text
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert entries() == 0


def test_a_long_row_is_shown_short() -> None:
    ds = Dataset.from_dict({"text": ["x" * 5000]})

    def fail(row: dict[str, Any]) -> None:
        raise Mine

    with pytest.raises(TransformError) as caught:
        ds.map(fail)
    assert len(str(caught.value)) < 700
    assert "raised Mine at row 0" in str(caught.value)


def test_what_was_computed_before_a_failure_is_kept(ds: Dataset) -> None:
    calls: list[int] = []
    state = {"bad": True}

    def fail(row: dict[str, Any]) -> dict[str, Any]:
        calls.append(row["a"])
        if state["bad"] and row["a"] == 2345:
            raise Mine
        return {"n": row["a"]}

    with pytest.raises(TransformError):
        ds.map(fail, new_fingerprint="0123456789abcdef")
    state["bad"] = False
    before = len(calls)
    made = ds.map(fail, new_fingerprint="0123456789abcdef")
    assert calls[before:] == list(range(2345, N))
    assert made["n"][:] == list(range(N))


@pytest.mark.slow
def test_row_three_million_and_seventeen() -> None:
    ds = Dataset.from_dict({"a": np.arange(3_000_100)})

    def fail(row: dict[str, Any]) -> dict[str, Any]:
        if row["a"] == 3_000_017:
            raise Mine("here")
        return {"n": 1}

    with pytest.raises(TransformError, match=r"raised Mine: here at row 3000017: \{'a': 3000017\}"):
        ds.map(fail)


def test_a_function_that_returns_nothing_leaves_no_record(ds: Dataset) -> None:
    seen: list[int] = []
    assert ds.map(lambda row: seen.append(row["a"]))._fingerprint == ds._fingerprint
    assert seen == list(range(N))
    assert entries() == 0
    records = TransformCache.current().folder.glob("lineage/**/*.json")
    assert not [each for each in records if "failed" in each.read_text()]


def test_progress_is_shown_on_terminals_only(tmp_path: Any) -> None:
    import pty

    lab = Lab(tmp_path)
    program = """
def slow(row):
    time.sleep(0.004)
    return {"b": 1}

Dataset.from_dict({"a": list(range(300))}).map(slow, desc="Counting sheep")
"""
    assert "sheep" not in lab.run(program).err
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(lab.folder / "program.py")],
        cwd=lab.folder,
        env={**lab.environment(), "TERM": "xterm", "PROVENDER_CACHE": str(tmp_path / "other")},
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait() == 0
    assert b"Counting sheep" in shown
    assert b"300/300" in shown


def test_progress_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    from provender.data import disable_progress_bars, enable_progress_bars
    from provender.data.dataset.progress import are_progress_bars_enabled

    disable_progress_bars()
    assert not are_progress_bars_enabled()
    enable_progress_bars()
    assert are_progress_bars_enabled()
    monkeypatch.setenv("PROVENDER_NO_PROGRESS", "1")
    assert not are_progress_bars_enabled()


def test_an_interrupt_is_not_wrapped(ds: Dataset) -> None:
    def stop(row: dict[str, Any]) -> dict[str, Any]:
        if row["a"] == 1000:
            raise KeyboardInterrupt
        return {"n": 1}

    with pytest.raises(KeyboardInterrupt):
        ds.map(stop)


def test_a_full_disk(tmp_path: Any) -> None:
    lab = Lab(tmp_path)
    program = """
import resource
ds = Dataset.from_dict({"a": list(range(200_000))})
ds._fingerprint

def big(row):
    called()
    return {"b": "x" * (1 + row["a"] // 1000)}

if os.environ.get("FULL"):
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
out = ds.map(big)
tell(rows=len(out), last=len(out[-1]["b"]))
"""
    lab.env["FULL"] = "1"
    failed = lab.run(program, fails=True)
    assert "DiskFull" in failed.err
    assert "No space is left in the transform cache" in failed.err
    assert not list(lab.cache.glob("entries/*/*/manifest.json"))
    kept = len(lab.segments())
    assert kept > 3
    del lab.env["FULL"]
    again = lab.run()
    assert again.told == {"rows": 200_000, "last": 200}
    assert again.calls < 200_000 - kept * 10_000


def test_arguments_that_make_no_sense(ds: Dataset) -> None:
    with pytest.raises(SettingsError, match="num_proc"):
        ds.map(lambda row: row, num_proc=-1)
    with pytest.raises(SettingsError, match="exclude each other"):
        ds.map(lambda row: row, keep_in_memory=True, cache_file_name="x.arrow")
    with pytest.raises(TypeError, match="needs a function"):
        ds.map("not a function")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="cannot be a fingerprint"):
        ds.map(lambda row: row, new_fingerprint="")


def test_features_that_are_not_met(ds: Dataset) -> None:
    wanted = Features({"a": Value("int64"), "text": Value("string"), "label": ClassLabel(2)})
    with pytest.raises(FeatureTypeError, match="no class number 7"):
        ds.map(lambda row: {"label": 7}, features=wanted)
    with pytest.raises(ColumnError, match="'label' is missing"):
        ds.map(lambda row: {}, features=wanted)
    made = ds.map(lambda row: {"label": str(row["a"] % 2)}, features=wanted)
    assert made["label"][:3] == [0, 1, 0]


def test_filters_that_return_something_else(ds: Dataset) -> None:
    with pytest.raises(TransformError, match="2 truth values for 1,000 rows"):
        ds.filter(lambda batch: [True, False], batched=True)
    with pytest.raises(TransformError, match="not a list of True and False"):
        ds.filter(lambda batch: 5, batched=True)
    assert len(ds.filter(lambda batch: np.array(batch["a"]) < 5, batched=True)) == 5
    assert len(ds.filter(lambda row: row["a"] if row["a"] < 3 else None)) == 2


def test_asynchronous_functions(ds: Dataset) -> None:
    running, most = 0, 0

    async def later(row: dict[str, Any]) -> dict[str, Any]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        if row["a"] == 2100:
            raise Mine
        return {"n": row["a"] + 1}

    few = ds.select(range(2000))
    assert few.map(later)["n"][:] == list(range(1, 2001))
    assert most > 100
    with pytest.raises(TransformError, match="row 2100"):
        ds.map(later)

    async def keep(row: dict[str, Any]) -> bool:
        await asyncio.sleep(0)
        return bool(row["a"] % 2)

    assert few.filter(keep)["a"][:3] == [1, 3, 5]

    async def batch(rows: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"n": [each * 2 for each in rows["a"]]}

    assert few.map(batch, batched=True)["n"][-1] == 3998


def test_empty_datasets() -> None:
    ds = Dataset.from_dict({"a": [], "b": []})
    assert ds.map(lambda row: {"n": 1}, remove_columns="a").column_names == ["b"]
    assert len(ds.filter(lambda row: True)) == 0
    assert len(ds.shuffle(seed=1)) == 0
    assert list(ds) == []
    wanted = Features({"n": Value("int8")})
    assert (
        ds.map(lambda row: {"n": 1}, remove_columns=["a", "b"], features=wanted).features == wanted
    )


def test_the_file_that_is_asked_for_is_written(ds: Dataset, tmp_path: Any) -> None:
    made = ds.map(lambda row: {"n": 1}, cache_file_name=str(tmp_path / "sub" / "out.arrow"))
    read = Dataset.from_file(tmp_path / "sub" / "out.arrow")
    assert read.features == made.features
    assert read[-1] == made[-1]


def test_lineage_crosses_transforms(ds: Dataset) -> None:
    one = ds.map(lambda row: {"n": 1})
    two = one.rename_column("n", "m").shuffle(seed=1).filter(lambda row: row["a"] > 5)
    three = two.map(lambda row: {"k": 2})
    cache = TransformCache.current()
    entry = cache.find(three._fingerprint)
    assert entry is not None
    (parent,) = entry.manifest.recipe.parents
    before = cache.find(parent)
    assert before is not None
    assert before.manifest.recipe.transform == "filter"
    assert before.manifest.recipe.parents == (one._fingerprint,)
    assert entry.manifest.recipe.parameters["input"] == two._fingerprint
