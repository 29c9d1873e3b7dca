"""Files as HF Datasets reads them: rows and features, side by side with the real thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from provender.data.loading.formats import make_source
from provender.data.sources.options import ReadOptions

JSON = {
    "plain": '{"a":1,"b":"x","c":1.5,"d":true}\n{"a":2,"b":null,"c":2,"d":false}\n',
    "nested": '{"a":{"x":1,"y":["p","q"]},"l":[1,2]}\n{"a":{"x":2,"y":[]},"l":[]}\n',
    "times": '{"t":"2020-01-01 00:00:00","d":"2020-01-01"}\n{"t":"2021-01-01 00:00:00","d":"2021-02-02"}\n',
    "missing": '{"a":1}\n{"b":"x"}\n',
    "byte order mark": b'\xef\xbb\xbf{"a":1}\n{"a":2}\n',
    "carriage returns": '{"a":1}\r\n\r\n{"a":2}\r\n',
    "no line end": '{"a":1}\n{"a":2}',
    "only nulls": '{"a":null,"b":1}\n{"a":null,"b":2}\n',
    "array": '[{"a":1,"b":"x"},{"a":2,"b":"y"}]',
    "array of texts": '["a","b"]',
    "array over lines": '[\n {"a":1,"b":[1,2]},\n {"a":2,"b":[]}\n]',
    "lists of objects": '{"m":[{"role":"u","content":"hi"},{"role":"a","content":"yo"}]}\n{"m":[]}\n',
    "escapes": '{"a":"\\u00e9\\ud83d\\ude00 é"}\n',
    "large numbers": '{"a":9223372036854775807,"f":1e300}\n{"a":-1,"f":3}\n',
}
CSV: dict[str, Any] = {
    "plain": ("a,b,c,d\n1,x,1.5,True\n2,,2.5,False\n", {}),
    "missing": ("a,b\n1,x\n,NA\n3,None\n", {}),
    "quotes": ('a,b\n1,"x, y"\n2,"line\nbreak"\n3,"q""q"\n', {}),
    "dates": ("t,d\n2020-01-01 00:00:00,2020-01-01\n2021-01-01 00:00:00,2021-02-02\n", {}),
    "byte order mark": (b"\xef\xbb\xbfa,b\n1,x\n", {}),
    "carriage returns": ("a,b\r\n1,x\r\n\r\n2,y\r\n", {}),
    "no line end": ("a,b\n1,x\n2,y", {}),
    "a column of nothing": ("a,b\n,x\n,y\n", {}),
    "missing truth values": ("a,b\nTrue,1\n,2\n", {}),
    "numbers and words": ("a,b\n1,x\nfoo,y\n", {}),
    "names twice": ("a,a,b\n1,2,3\n", {}),
    "blanks": ("a, b\n1, x\n 2, y\n", {}),
    "exponents and signs": ("a,b\n1e3,+5\n2,-6\n", {}),
    "leading zeros": ("zip,n\n00123,1\n04567,2\n", {}),
    "a name missing": (",a\n0,1\n1,2\n", {}),
    "infinities": ("a\n1.0\n2.0\ninf\n-inf\nnan\n", {}),
    "tabs": ("a\tb\n1\tx\n", {"sep": "\t"}),
    "no header": ("1,x\n2,y\n", {"header": None}),
    "names given": ("1,x\n2,y\n", {"names": ["p", "q"]}),
    "lines skipped": ("junk\na;b\n1;x\n", {"sep": ";", "skiprows": 1}),
    "another missing value": ("a,b\n1,-\n2,y\n", {"na_values": ["-"]}),
    "other quotes": ("a,b\n1,'x,y'\n", {"quotechar": "'"}),
    "another encoding": ("a,b\n1,é\n".encode("latin-1"), {"encoding": "latin-1"}),
    "escapes": ("a,b\n1,x\\,y\n", {"escapechar": "\\"}),
}
TEXT: dict[str, Any] = {
    "plain": ("one\ntwo\n\nthree\n", {}),
    "carriage returns": (b"one\r\ntwo\rthree\r\n", {}),
    "no line end": ("one\ntwo", {}),
    "other separators stay": ("é\u2028x\n\u0085y\x0bz\n", {}),
    "empty lines": ("\n\n\n", {}),
    "line ends kept": ("one\ntwo", {"keep_linebreaks": True}),
    "paragraphs": ("a\nb\n\nc\n\n\n\n\nd\ne", {"sample_by": "paragraph"}),
    "paragraphs with blanks around": ("\n\na\n\n\nb\n", {"sample_by": "paragraph"}),
    "documents": ("a\nb\n", {"sample_by": "document"}),
}


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """HF's ``load_dataset``, with a cache of its own and without network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hf")))
        patch.setenv("HF_DATASETS_OFFLINE", "1")
        patch.setenv("HF_HUB_OFFLINE", "1")
        import datasets

        datasets.disable_progress_bars()
        cache = str(tmp_path_factory.mktemp("hf_cache"))
        yield lambda kind, path, options: datasets.load_dataset(
            kind, data_files=str(path), split="train", cache_dir=cache, **options
        )


def _same(peer: Any, kind: str, path: Path, options: dict[str, Any], read: Any) -> None:
    from provender.data.sources.access import place_of

    theirs = peer(kind, path, options)
    ours = make_source(
        kind,
        place_of(str(path)).find(str(path)),
        features=None,
        options=ReadOptions(),
        arguments=options,
    )
    assert repr(read.check(ours)) == repr(theirs.to_list())
    assert {name: repr(f) for name, f in ours.features.items()} == {
        name: repr(f) for name, f in theirs.features.items()
    }


@pytest.mark.parametrize("case", JSON)
def test_json(peer, read, tmp_path, case: str) -> None:
    content = JSON[case]
    path = tmp_path / "a.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    _same(peer, "json", path, {}, read)


@pytest.mark.parametrize("case", CSV)
def test_csv(peer, read, tmp_path, case: str) -> None:
    content, options = CSV[case]
    path = tmp_path / "a.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    _same(peer, "csv", path, options, read)


@pytest.mark.parametrize("case", TEXT)
def test_text(peer, read, tmp_path, case: str) -> None:
    content, options = TEXT[case]
    path = tmp_path / "a.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    _same(peer, "text", path, options, read)


def test_parquet(peer, read, tmp_path) -> None:
    import datetime

    table = pa.table(
        {
            "i8": pa.array([1, None, -3], pa.int8()),
            "f16": pa.array([1.5, None, 2.5], pa.float32()),
            "s": ["a", None, "c"],
            "ls": pa.array(["a", None, "c"], pa.large_string()),
            "b": pa.array([b"\xff", None, b""], pa.binary()),
            "l": [[1, 2], [], None],
            "st": [{"x": 1, "y": "p"}, None, {"x": 3, "y": None}],
            "d": [datetime.date(2020, 1, 1), None, datetime.date(1999, 1, 1)],
            "t": pa.array([0, None, 5], pa.timestamp("us", tz="UTC")),
            "lf": pa.array([[1.0, 2.0], [3.0, 4.0], None], pa.list_(pa.float64(), 2)),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    _same(peer, "parquet", tmp_path / "a.parquet", {}, read)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["train.csv", "test.csv"], id="names"),
        pytest.param(["my-train-0.csv", "my_valid_1.csv", "x.eval.csv", "other.csv"], id="words"),
        pytest.param(["train/a.csv", "dev/b.csv", "testing/c.csv"], id="folders"),
        pytest.param(["data/train-00000-of-00001.csv", "data/odd-00000-of-00001.csv"], id="shards"),
        pytest.param(["a.csv", "b/c.csv", "trainer.csv"], id="nothing"),
        pytest.param(["train1.csv", "validation 2.csv", "contest.csv"], id="digits"),
    ],
)
def test_splits_in_file_names(peer, tmp_path, names: list[str]) -> None:
    import datasets

    from provender.data.loading.data_files import in_folder

    for number, name in enumerate(names):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"n\n{number}\n")
    (tmp_path / ".hidden.csv").write_text("n\n9\n")
    (tmp_path / "README.md").write_text("read me")
    theirs = datasets.load_dataset(str(tmp_path), cache_dir=str(tmp_path / "__cache"))
    ours = in_folder(str(tmp_path))
    numbers = {
        split: [int(Path(file.url).read_text().split()[1]) for file in files]
        for split, files in ours.items()
    }
    assert numbers == {split: sorted(ds["n"]) for split, ds in theirs.items()}
