"""Text, JSON lines and CSV: any block size, any place, any range of bytes gives the same rows."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provender.data.features import Features, Value
from provender.data.sources.csvs import CsvSource
from provender.data.sources.jsonl import JsonLinesSource
from provender.data.sources.options import ReadOptions
from provender.data.sources.text import TextSource
from provender.errors import DamageError, InputError

FUZZ = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
LINES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12))
CELLS = st.text(st.sampled_from('ab,"\n \r;é'), max_size=6)
SIZES = st.sampled_from([1, 2, 3, 7, 16, 64, 1 << 20])


@FUZZ
@given(lines=LINES, block=SIZES, last=st.booleans(), end=st.sampled_from(["\n", "\r\n"]))
def test_text_lines(files, read, lines, block, last, end) -> None:
    text = end.join(lines) + (end if last and lines else "")
    expected = re.split("\r\n|\r|\n", text)
    if expected[-1] == "":
        expected.pop()
    source = TextSource(files(text), block=block)
    assert [row["text"] for row in read.check(source)] == expected
    for pieces in (2, 3, 50):
        assert [row["text"] for row in read.rows(source.reshard(pieces))] == expected


@FUZZ
@given(paragraphs=st.lists(st.text(st.sampled_from("ab\n"), max_size=8), max_size=6), block=SIZES)
def test_text_paragraphs(files, read, paragraphs, block) -> None:
    text = "\n\n".join(paragraphs)
    whole = read.check(TextSource(files(text), sample_by="paragraph"))
    assert read.check(TextSource(files(text), sample_by="paragraph", block=block)) == whole


@FUZZ
@given(
    values=st.lists(st.tuples(st.integers(-5, 5), st.text(max_size=6)), min_size=1),
    blanks=st.lists(st.sampled_from(["", " ", "\t"]), max_size=3),
    block=SIZES,
    last=st.booleans(),
)
def test_json_lines(files, read, values, blanks, block, last) -> None:
    expected = [{"i": i, "t": t} for i, t in values]
    lines = [json.dumps(row, ensure_ascii=bool(row["i"] % 2)) for row in expected]
    for blank in blanks:
        lines.insert(len(lines) // 2, blank)
    text = "\n".join(lines) + ("\n" if last else "")
    source = JsonLinesSource(files(text), block=block)
    assert read.check(source) == expected
    assert read.rows(source.reshard(9)) == expected


@FUZZ
@given(
    cells=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8),
    block=SIZES,
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_csv_with_anything_in_quotes(files, read, cells, block, end) -> None:
    def quoted(cell: str) -> str:
        return '"x' + cell.replace('"', '""') + '"'

    text = "p,q" + end + "".join(f"{quoted(a)},{quoted(b)}{end}" for a, b in cells)
    source = CsvSource(files(text), block=block)
    expected = [{"p": f"x{a}", "q": f"x{b}"} for a, b in cells]
    assert read.check(source) == expected


@FUZZ
@given(
    lines=st.lists(st.text(st.sampled_from('a," \n'), max_size=9), min_size=1, max_size=8),
    block=SIZES,
)
def test_csv_with_quotes_anywhere(files, read, lines, block) -> None:
    # One column, so that any text is a table: what pyarrow makes of the whole is what counts.
    text = "c\n" + "\n".join(f"x{line.replace(',', ';')}" for line in lines) + "\n"
    (file,) = files(text)
    try:
        whole = pa.csv.read_csv(
            io.BytesIO(text.encode()), parse_options=pa.csv.ParseOptions(newlines_in_values=True)
        )
    except pa.ArrowInvalid:
        return
    kinds = Features({"c": Value("string")})
    found = read.check(CsvSource([file], block=block, features=kinds, keep_default_na=False))
    assert [row["c"] for row in found] == [str(each) for each in whole["c"].to_pylist()]


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
def test_compressed_files(files, read, kind: str) -> None:
    lines = [{"i": i, "t": "x" * (i % 40)} for i in range(3000)]
    plain = "".join(json.dumps(row) + "\n" for row in lines).encode()
    packed = {
        # Two members behind one another, as concatenated logs are.
        "gz": lambda: gzip.compress(plain[:5000]) + gzip.compress(plain[5000:]),
        "bz2": lambda: bz2.compress(plain),
        "xz": lambda: lzma.compress(plain),
        "zst": lambda: pa.compress(plain, "zstd", asbytes=True),
    }[kind]()
    source = JsonLinesSource(files(packed, name="a{}.jsonl." + kind), block=20_000)
    assert read.check(source, every=700) == lines
    assert source.reshard(8).num_shards == 1


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_compressed_file_cut_off_says_where(files, read, kind: str) -> None:
    plain = b"".join(b"line %d\n" % i for i in range(200_000))
    packed = gzip.compress(plain) if kind == "gz" else pa.compress(plain, "zstd", asbytes=True)
    (file,) = files(packed[: len(packed) * 2 // 3], name="a{}.txt." + kind)
    found: list[str] = []
    with pytest.raises(DamageError, match=r"cut off|ends inside") as caught:
        for chunk in TextSource([file]).read(0):
            found += chunk.table["text"].to_pylist()
    assert caught.value.where == file.name
    assert caught.value.facts["byte"] > 1000
    assert len(found) > 10_000  # what came before the cut was given
    assert found == [f"line {i}" for i in range(len(found))]
    skipping = TextSource([file], options=ReadOptions(on_error="skip"))
    assert len(read.rows(skipping)) == len(found)
    assert skipping.skipped == {"shards": 1}


def test_byte_order_marks_and_line_ends(files, read) -> None:
    bom = b"\xef\xbb\xbf"
    assert read.check(TextSource(files(bom + b"a\r\nb\rc\n"))) == [{"text": each} for each in "abc"]
    assert read.check(JsonLinesSource(files(bom + b'{"a":1}\r\n\r\n{"a":2}'), block=2)) == [
        {"a": 1},
        {"a": 2},
    ]
    assert read.check(CsvSource(files(bom + b"a,b\r\n1,x\r\n\r\n2,y"), block=2)) == [
        {"a": 1, "b": "x"},
        {"a": 2, "b": "y"},
    ]


@pytest.mark.parametrize("source", [TextSource, JsonLinesSource, CsvSource])
def test_empty_files_have_no_rows(files, read, source: Any) -> None:
    made = source(files(b"", b"\n\n" if source is not TextSource else b""))
    assert read.check(made) == []
    made = source(files(b"", b'a\n{"a":1}\n' if source is not JsonLinesSource else b'{"a":1}\n'))
    assert len(read.rows(made)) >= 1


def test_one_line_longer_than_any_block(files, read) -> None:
    text = json.dumps({"t": "x" * 3_000_000})
    source = JsonLinesSource(files(f'{{"t":"a"}}\n{text}\n{{"t":"b"}}\n'), block=1000)
    assert [len(row["t"]) for row in read.rows(source)] == [1, 3_000_000, 1]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        pytest.param(TextSource, b"fine\nb\xffd\n", id="text"),
        pytest.param(JsonLinesSource, b'{"a":"fine"}\n{"a":"b\xffd"}\n', id="json"),
        pytest.param(CsvSource, b"a\nfine\nb\xffd\n", id="csv"),
    ],
)
def test_bytes_that_are_no_text_are_told_by_file_and_byte(files, read, source, text) -> None:
    (file,) = files(text)
    with pytest.raises(InputError, match="not UTF-8") as caught:
        read.rows(source([file]))
    assert caught.value.facts == {"file": file.name, "byte": text.index(b"\xff")}
    line = text[: text.index(b"\xff")].count(b"\n") + 1
    assert f"{file.name}, line {line} (byte " in str(caught.value.where)
    assert "encoding" in str(caught.value.hint)
    replaced = read.rows(source([file], encoding_errors="replace"))
    assert list(replaced[1].values()) == ["b\ufffdd"]


def test_another_encoding(files, read) -> None:
    text = "é\nü\n"
    for encoding in ("latin-1", "utf-16"):
        source = TextSource(files(text.encode(encoding)), encoding=encoding, block=3)
        assert read.check(source) == [{"text": "é"}, {"text": "ü"}]
    with pytest.raises(InputError, match="no encoding called 'nope'"):
        TextSource(files(text), encoding="nope")


def test_a_broken_json_line_is_named_and_can_be_skipped(files, read) -> None:
    lines = [json.dumps({"i": i}) for i in range(10)]
    lines[6] = '{"i": 6'
    text = "\n".join(lines) + "\n"
    (file,) = files(text)
    with pytest.raises(InputError, match="not a JSON object") as caught:
        read.rows(JsonLinesSource([file], features=Features({"i": Value("int64")})))
    assert caught.value.facts["byte"] == text.index('{"i": 6\n')
    assert "line 7 (byte " in str(caught.value.where)
    options = ReadOptions(on_error="skip")
    source = JsonLinesSource([file], features=Features({"i": Value("int64")}), options=options)
    assert [row["i"] for row in read.rows(source)] == [0, 1, 2, 3, 4, 5, 7, 8, 9]
    assert source.skipped == {"records": 1}


def test_damage_in_the_first_rows_does_not_hide_the_columns(files, read) -> None:
    options = ReadOptions(on_error="skip")
    source = JsonLinesSource(files('{"i": \n{"i": 1}\n'), options=options)
    assert read.rows(source) == [{"i": 1}]
    assert source.skipped == {"records": 1}
    options = ReadOptions(on_error="skip")
    source = CsvSource(files('a,b\n1,"x\ny"\n2,z,3\n4,w\n'), options=options)
    assert read.rows(source) == [{"a": 1, "b": "x\ny"}, {"a": 4, "b": "w"}]
    assert source.skipped == {"records": 1}
    with pytest.raises(InputError, match="Expected 2 columns, got 3"):
        read.rows(CsvSource(files("a,b\n2,z,3\n")))


def test_a_value_of_another_type_further_on_is_an_error(files, read) -> None:
    text = "".join(f'{{"i": {i}}}\n' for i in range(50)) + '{"i": "fifty"}\n'
    (file,) = files(text)
    with pytest.raises(InputError, match="do not fit") as caught:
        read.rows(JsonLinesSource([file], sample=100, block=100))
    assert "features=" in str(caught.value.hint)
    as_text = JsonLinesSource(
        [file], sample=100, block=100, features=Features({"i": Value("string")})
    )
    assert read.rows(as_text)[-2:] == [{"i": "49"}, {"i": "fifty"}]


def test_a_column_that_is_null_at_first_is_looked_for_further_on(files, read) -> None:
    text = '{"a": null}\n' * 50 + '{"a": "x"}\n'
    source = JsonLinesSource(files(text), sample=100, block=100)
    assert source.features == Features({"a": Value("string")})
    assert read.rows(source)[-1] == {"a": "x"}


def test_a_column_that_comes_later_is_an_error_unless_named(files, read) -> None:
    text = '{"a": 1}\n' * 50 + '{"a": 1, "b": 2}\n'
    with pytest.raises(InputError, match="column 'b'"):
        read.rows(JsonLinesSource(files(text), sample=100, block=100))
    both = Features({"a": Value("int64"), "b": Value("int64")})
    found = read.rows(JsonLinesSource(files(text), sample=100, block=100, features=both))
    assert (found[0], found[-1]) == ({"a": 1, "b": None}, {"a": 1, "b": 2})


def test_columns_and_shards_are_chosen(files, read) -> None:
    source = JsonLinesSource(files('{"a": 1, "b": 2}\n', '{"a": 3, "b": 4}\n'))
    assert read.rows(source.columns(["b"]).select_shards([1])) == [{"b": 4}]
    assert source.columns(["b"]).features == Features({"b": Value("int64")})
    assert (
        len({source.identity, source.columns(["b"]).identity, source.select_shards([1]).identity})
        == 3
    )


def test_the_identity_is_that_of_the_content(files, tmp_path) -> None:
    (one,) = files("a\nb\n")
    (copy,) = files("a\nb\n", name="other-{}.dat")
    (other,) = files("a\nc\n", name="third-{}.dat")
    assert TextSource([one]).identity == TextSource([copy]).identity
    assert TextSource([one]).identity != TextSource([other]).identity
    assert TextSource([one]).identity != TextSource([one], keep_linebreaks=True).identity
    assert TextSource([one]).identity != JsonLinesSource([one]).identity


def test_csv_refuses_what_it_does_not_know(files) -> None:
    with pytest.raises(InputError, match="one ASCII character"):
        CsvSource(files("a\n1\n"), sep="||")
    with pytest.raises(InputError, match="header"):
        CsvSource(files("a\n1\n"), header=3)


def test_csv_tells_the_row_that_does_not_fit(files, read) -> None:
    text = "n\n" + "".join(f"{i}\n" for i in range(40)) + "forty\n"
    (file,) = files(text)
    with pytest.raises(InputError, match="Row 40 has 'forty' in the column 'n'"):
        read.rows(CsvSource([file], sample=20, block=30))
    options = ReadOptions(on_error="skip")
    source = CsvSource([file], sample=20, block=30, options=options)
    assert len(read.rows(source)) == 40
    assert source.skipped == {"records": 1}


def test_csv_files_of_one_split_need_the_same_columns(files, read) -> None:
    with pytest.raises(InputError, match="has no column 'a'"):
        read.rows(CsvSource(files("a\n1\n", "b\n1\n")))


def test_a_file_that_changes_under_a_stream_is_refused(files, read) -> None:
    from provender.errors import StoreError

    (file,) = files("a\nb\n")
    source = TextSource([file])
    with open(file.url, "a") as more:
        more.write("c\n")
    with pytest.raises(StoreError, match="changed"):
        read.rows(source)
