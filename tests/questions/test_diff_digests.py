"""Which examples two sides share: arrays against plain dictionaries."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provender.questions.diff import digests
from provender.questions.diff.digests import Digester, Shelf, Tally, pairs, parts_for, surplus
from provender.records import protobuf
from provender.statistics import Schema

CONTENTS = st.lists(st.integers(0, 12), max_size=30)
KEYED = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), max_size=30)


def spread(numbers: list[int]) -> np.ndarray:
    """Numbers as pairs of u64 that look like digests."""
    base = np.array(numbers, np.uint64).reshape(-1, 1)
    return np.concatenate([base * np.uint64(0x9E3779B97F4A7C15), base ^ np.uint64(5)], axis=1)


def content_rows(contents: list[int]) -> np.ndarray:
    return np.concatenate([spread(contents), np.arange(len(contents), dtype=np.uint64)[:, None]], 1)


def keyed_rows(pairs_: list[tuple[int, int]]) -> np.ndarray:
    keys, contents = [k for k, _ in pairs_], [c for _, c in pairs_]
    place = np.arange(len(pairs_), dtype=np.uint64)[:, None]
    field = np.array(contents, np.uint64)[:, None]
    whole = spread([100 * k + c for k, c in pairs_])
    return np.concatenate([spread(keys), whole, place, field], 1)


def compared(before: np.ndarray, after: np.ndarray, folder: Path, parts: int, keyed: bool) -> Tally:
    tally = Tally(5, 1 if keyed else 0)
    width = before.shape[1]
    with Shelf(folder / "a", width, parts) as ours, Shelf(folder / "b", width, parts) as theirs:
        for shelf, rows in ((ours, before), (theirs, after)):
            for chunk in np.array_split(rows, 3):
                shelf.add(chunk)
        for number in range(parts):
            tally.compare(ours.part(number), theirs.part(number), keyed)
    return tally


@settings(deadline=None)
@given(CONTENTS, CONTENTS, st.sampled_from([1, 2, 8]))
def test_by_content(tmp_path_factory, before: list[int], after: list[int], parts: int) -> None:
    folder = tmp_path_factory.mktemp("rows")
    tally = compared(content_rows(before), content_rows(after), folder, parts, keyed=False)
    one, other = Counter(before), Counter(after)
    assert tally.counts == {
        "same": (one & other).total(),
        "removed": (one - other).total(),
        "added": (other - one).total(),
        "changed": 0,
    }
    assert set(Counter(before[i] for i in tally.removed)) <= set(one - other)
    assert tally.added == sorted(tally.added)
    assert len(tally.added) == min(5, (other - one).total())
    if (one - other).total() <= 5:
        assert Counter(before[i] for i in tally.removed) == one - other


def model(before: list[tuple[int, int]], after: list[tuple[int, int]]) -> dict[str, int]:
    """The same by dictionaries: equal ones first, then what is left of each key is paired."""
    counts = Counter({"same": 0, "changed": 0, "added": 0, "removed": 0})
    one, other = Counter(before), Counter(after)
    counts["same"] = (one & other).total()
    left: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for side, rest in enumerate((one - other, other - one)):
        for (key, _), n in rest.items():
            left[key][side] += n
    for removed, added in left.values():
        counts["changed"] += min(removed, added)
        counts["removed"] += removed - min(removed, added)
        counts["added"] += added - min(removed, added)
    return dict(counts)


@settings(deadline=None)
@given(KEYED, KEYED, st.sampled_from([1, 4]))
def test_by_key(tmp_path_factory, before: list, after: list, parts: int) -> None:
    folder = tmp_path_factory.mktemp("rows")
    tally = compared(keyed_rows(before), keyed_rows(after), folder, parts, keyed=True)
    assert tally.counts == model(before, after)
    assert tally.fields.tolist() == [tally.counts["changed"]]
    assert tally.repeated == tuple(
        len(side) - len({key for key, _ in side}) for side in (before, after)
    )
    for ours, theirs in tally.changed:
        assert before[ours][0] == after[theirs][0] and before[ours][1] != after[theirs][1]


def test_pairs_go_first_with_first() -> None:
    before, after = spread([1, 2, 1, 3]), spread([3, 1, 9, 1, 1])
    ours, theirs = pairs(before, after)
    found = {(int(i), int(j)) for i, j in zip(ours, theirs, strict=True)}
    assert found == {(0, 1), (2, 3), (3, 0)}


def test_of_equal_rows_the_later_ones_are_left_over() -> None:
    left, right = surplus(spread([7, 7, 7]), spread([7]))
    assert (left.tolist(), right.tolist()) == ([False, True, True], [False])


@pytest.mark.parametrize(
    ("examples", "width", "parts"),
    [(0, 3, 1), (1_000_000, 3, 1), (1_000_000, 15, 4), (100_000_000, 3, 64), (10**12, 40, 512)],
)
def test_parts_fit_the_budget(examples: int, width: int, parts: int) -> None:
    assert parts_for(examples, width) == parts
    if parts < 512:
        assert examples * width * 8 / parts <= digests.BUDGET


SCHEMA = Schema({"featuresDict": {"features": {n: {"text": {}} for n in ("id", "text", "note")}}})


def record(**values: str) -> bytes:
    entries = [
        protobuf.entry(name.encode(), protobuf.bytes_feature([value.encode()]))
        for name, value in values.items()
    ]
    return protobuf.example_prefix(len(b"".join(entries))) + b"".join(entries)


def test_rows_depend_on_values_and_names_alone() -> None:
    digester = Digester(SCHEMA, ("id", "text"), "id")
    rows = digester.rows(
        [
            record(id="1", text="a"),
            record(text="a", id="1", note="not compared"),
            record(id="2", text="a"),
            record(id="1", text="b"),
            record(id="a", text="1"),
        ],
        first=40,
    )
    assert rows.shape == (5, 7)
    key, content, place, fields = rows[:, :2], rows[:, 2:4], rows[:, 4], rows[:, 5:]
    assert place.tolist() == [40, 41, 42, 43, 44]
    assert (rows[0, :4] == rows[1, :4]).all()
    assert (key[0] == key[3]).all() and (key[0] != key[2]).any() and (key[0] != key[4]).any()
    assert len({tuple(each) for each in content.tolist()}) == 4
    assert fields[0, 0] == fields[3, 0] and fields[0, 1] != fields[3, 1]
