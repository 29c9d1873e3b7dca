"""Statistics of records: what they say, and that pieces add up to the whole, bit for bit."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provender.records import protobuf
from provender.statistics import Collection, Schema, merged, record_ids
from provender.statistics.values import EXACT

FEATURES = {
    "text": {"text": {}},
    "label": {"classLabel": {"numClasses": "3"}},
    "score": {"tensor": {"shape": {}, "dtype": "float32", "encoding": "none"}},
    "flag": {"tensor": {"shape": {}, "dtype": "bool", "encoding": "none"}},
    "big": {"tensor": {"shape": {}, "dtype": "uint64", "encoding": "none"}},
    "ids": {"sequence": {"feature": {"tensor": {"shape": {}, "dtype": "int64"}}, "length": "-1"}},
    "image": {"image": {"shape": {"dimensions": ["-1", "-1", "3"]}, "dtype": "uint8"}},
    "raw": {"tensor": {"shape": {"dimensions": ["2"]}, "dtype": "float32", "encoding": "zlib"}},
}
SCHEMA = Schema({"featuresDict": {"features": FEATURES}}, {"label": ("calm", "loud", "odd")})
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (30).to_bytes(4) + (20).to_bytes(4) + b"\x08\x02\0\0\0"


def record(**values) -> bytes:
    made = {
        "text": lambda v: protobuf.bytes_feature([v.encode()]),
        "label": lambda v: protobuf.int64_feature(protobuf.varint(v)),
        "score": lambda v: protobuf.float_feature(protobuf.packed_floats(np.float32([v]))),
        "flag": lambda v: protobuf.int64_feature(protobuf.varint(int(v))),
        "big": lambda v: protobuf.int64_feature(protobuf.packed_varints(np.array([v], np.uint64).view(np.int64))),
        "ids": lambda v: protobuf.int64_feature(protobuf.packed_varints(np.array(v, np.int64))),
        "image": lambda v: protobuf.bytes_feature([v]),
        "raw": lambda v: protobuf.bytes_feature([v]),
        "extra": lambda v: protobuf.bytes_feature([v]),
    }  # fmt: skip
    entries = [protobuf.entry(n.encode(), made[n](v)) for n, v in sorted(values.items())]
    joined = b"".join(entries)
    return protobuf.example_prefix(len(joined)) + joined


def collect(records: list[bytes], first: int = 0) -> Collection:
    sizes = np.fromiter(map(len, records), np.int64, len(records))
    place = np.arange(first, first + len(records))
    found = Collection(SCHEMA)
    found.add(
        np.frombuffer(b"".join(records), np.uint8), np.cumsum(sizes) - sizes, sizes,
        record_ids(place, place),
    )  # fmt: skip
    return found


def many(count: int) -> list[bytes]:
    return [
        record(
            text=("" if i % 10 == 0 else f"note {i} " + "é" * (i % 7)),
            label=i % 2,
            score=[0.5, float("nan"), float("inf"), -3.0][i % 4],
            flag=i % 3 == 0,
            big=2**64 - 1 - i,
            ids=list(range(i % 5)),
            image=PNG + bytes(i % 9),
            raw=b"\x78\x9c" + bytes(i % 3),
            **({} if i % 4 else {"extra": b"?"}),
        )
        for i in range(count)
    ]


def test_the_figures_are_right() -> None:
    records = many(400)
    doc = collect(records).summary()
    assert doc["examples"] == 400
    assert doc["bytes"]["sum"] == sum(map(len, records))
    features = doc["features"]
    texts = ["" if i % 10 == 0 else f"note {i} " + "é" * (i % 7) for i in range(400)]
    text = features["text"]
    assert (text["missing"], text["empty"]) == (0, 40)
    assert text["characters"]["mean"] == pytest.approx(np.mean(list(map(len, texts))))
    assert text["bytes"]["max"] == max(len(each.encode()) for each in texts)
    assert features["label"]["labels"] == {
        "classes": 3,
        "counts": [[0, 200], [1, 200], [2, 0]],
        "names": {"0": "calm", "1": "loud", "2": "odd"},
    }
    score = features["score"]["numbers"]
    assert (score["min"], score["max"], score["nan"], score["infinite"]) == (-3.0, 0.5, 100, 100)
    assert (score["count"], score["mean"]) == (400, -1.25)
    assert features["flag"]["labels"]["counts"] == [[0, 266], [1, 134]]
    assert features["big"]["numbers"]["max"] == 2**64 - 1
    ids = features["ids"]
    assert (ids["sequence"], ids["empty"], ids["length"]["max"]) == (True, 80, 4)
    assert Counter({v["value"]: v["count"] for v in ids["frequent"]["values"]}) == Counter(
        str(x) for i in range(400) for x in range(i % 5)
    )
    assert features["image"]["pictures"] == {"png/3": 400}
    assert (features["image"]["width"]["max"], features["image"]["height"]["max"]) == (30, 20)
    assert features["raw"]["kind"] == "bytes"
    assert (features["extra"]["kind"], features["extra"]["missing"]) == ("bytes", 300)


def test_the_summary_is_json() -> None:
    assert json.loads(json.dumps(collect(many(50)).summary(), allow_nan=False))


def test_nothing_at_all() -> None:
    doc = Collection(SCHEMA).summary()
    assert doc["examples"] == 0 and set(doc["features"]) == set(FEATURES)
    assert merged([]) is None


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 1500), st.data())
def test_merging_any_pieces_gives_the_whole(count: int, data: st.DataObject) -> None:
    records = many(count)
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, count), max_size=5))), count]
    pieces = [collect(records[a:b], a) for a, b in itertools.pairwise(cuts) if a < b]
    order = data.draw(st.permutations(pieces))
    found = merged(Collection.from_bytes(piece.to_bytes()) for piece in order)
    whole = collect(records)
    assert found is not None and found.to_bytes() == whole.to_bytes()
    assert found.summary() == whole.summary()


def test_the_order_of_records_does_not_matter() -> None:
    records = many(2000)
    sizes = np.fromiter(map(len, records), np.int64)
    ids = record_ids(np.arange(2000), np.arange(2000))
    order = np.random.default_rng(3).permutation(2000)
    shuffled = Collection(SCHEMA)
    mixed = [records[i] for i in order]
    shuffled.add(
        np.frombuffer(b"".join(mixed), np.uint8), np.cumsum(sizes[order]) - sizes[order],
        sizes[order], ids[order],
    )  # fmt: skip
    assert shuffled.to_bytes() == collect(records).to_bytes()


def test_of_large_arrays_a_part_is_weighed_and_all_is_bounded() -> None:
    rows = [list(range(1000)), [5] * 65, [1, 2]]
    doc = collect([record(ids=each) for each in rows]).summary()["features"]["ids"]
    assert (doc["numbers"]["count"], doc["numbers"]["looked_at"]) == (1067, 64 + 64 + 2)
    assert (doc["numbers"]["max"], doc["length"]["max"]) == (999, 1000)


def test_a_million_classes_do_not_make_a_large_document() -> None:
    schema = Schema(
        {"featuresDict": {"features": {"y": {"classLabel": {"numClasses": "1000000"}}}}}
    )
    records = [
        protobuf.example_prefix(len(e)) + e
        for i in range(5000)
        for e in [protobuf.entry(b"y", protobuf.int64_feature(protobuf.varint(i)))]
    ]
    sizes = np.fromiter(map(len, records), np.int64)
    found = Collection(schema)
    found.add(
        np.frombuffer(b"".join(records), np.uint8), np.cumsum(sizes) - sizes, sizes,
        record_ids(np.arange(5000), np.arange(5000)),
    )  # fmt: skip
    labels = found.summary()["features"]["y"]["labels"]
    assert len(labels["counts"]) == 4096
    assert labels["others"] == {"examples": 904, "unused_classes": 995_000}


def test_statistics_of_another_revision_are_refused() -> None:
    doc = json.loads(collect(many(3)).to_bytes())
    with pytest.raises(ValueError, match="another revision"):
        Collection.from_bytes(json.dumps({**doc, "format": 99}).encode())


def test_hostile_texts_do_no_harm() -> None:
    texts = ["<script>alert(1)</script>", "\u202e right to left", "\x00\x1b[31m", "x" * 1_000_000]
    doc = collect([record(text=each) for each in texts]).summary()["features"]["text"]
    assert {v["value"] for v in doc["frequent"]["values"]} >= {texts[0], texts[1], texts[2]}
    assert max(len(v["value"]) for v in doc["frequent"]["values"]) <= 48
    assert doc["characters"]["max"] == 1_000_000 and doc["distinct"]["count"] == 4 <= EXACT


@settings(deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), min_size=1, max_size=8))
def test_characters_are_code_points(texts: list[str]) -> None:
    doc = collect([record(text=each) for each in texts]).summary()["features"]["text"]
    lengths = list(map(len, texts))
    assert (doc["characters"]["min"], doc["characters"]["max"]) == (min(lengths), max(lengths))
    assert doc["characters"]["mean"] == pytest.approx(sum(lengths) / len(lengths))
