"""Split expressions mean the same examples as in TFDS."""

from __future__ import annotations

import pytest
import tensorflow_datasets as tfds
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_datasets.core import splits as tfds_splits

from provender.errors import SplitError, UnknownReference
from provender.training.splits import SplitSlice, even_splits, resolve_split

SHARDS = {"train": [334, 333, 333], "test": [57], "empty": [0]}


def theirs(split: object, shards: dict[str, list[int]]) -> list[tuple[str, int, int]]:
    infos = {
        name: tfds_splits.SplitInfo(name=name, shard_lengths=list(lengths), num_bytes=0)
        for name, lengths in shards.items()
    }
    found = tfds_splits.AbstractSplit.from_spec(split).to_absolute(infos)
    return [
        (
            each.splitname,
            each.from_ or 0,
            sum(shards[each.splitname]) if each.to is None else each.to,
        )
        for each in found
    ]


def ours(split: object, shards: dict[str, list[int]]) -> list[tuple[str, int, int]]:
    return [(each.split, each.start, each.stop) for each in resolve_split(split, shards)]


@pytest.mark.parametrize(
    "expression",
    [
        "train",
        "all",
        "train+test",
        " train + test[:5] ",
        "train[:500]",
        "train[-5:]",
        "train[:-995]",
        "train[1_0:20]",
        "train[10%:20%]",
        "train[:33%]",
        "train[-10%:]",
        "train[12.5%:37.25%]",
        "train[:1shard]",
        "train[1shard:]",
        "train[1shard]",
        "test[:0%]",
        "test[50%:50%]",
        "train[:10%]+test[:50]",
    ],
)
def test_an_expression_means_what_it_means_in_tfds(expression: str) -> None:
    assert ours(expression, SHARDS) == theirs(expression.strip(), SHARDS)


BORDER = st.one_of(st.none(), st.integers(-60, 60))
UNIT = st.sampled_from(["", "%", "shard"])


@given(BORDER, BORDER, UNIT, st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_any_slice_is_the_slice_of_tfds_or_is_refused(
    start: int | None, stop: int | None, unit: str, lengths: list[int]
) -> None:
    borders = [f"{each}{unit}" if each is not None else "" for each in (start, stop)]
    expression, shards = f"a[{borders[0]}:{borders[1]}]", {"a": lengths}
    try:
        ((_, first, last),) = ours(expression, shards)
    except SplitError:
        if unit == "shard" and any(abs(b or 0) > len(lengths) for b in (start, stop)):
            return  # TFDS cuts these quietly at the end of the split
        with pytest.raises(ValueError):
            theirs(expression, shards)
        return
    ((_, from_, to),) = theirs(expression, shards)
    if unit == "shard" and stop is not None and stop <= 0:
        to = sum(lengths[:stop])  # TFDS counts `:0shard` from the end; a slice does not
    assert (first, last) == (from_, max(from_, to))


@given(
    st.sampled_from(["train", "train[3:77]+test", "test[10%:]", "empty+test"]),
    st.integers(1, 9),
    st.booleans(),
)
def test_even_splits_are_those_of_tfds(expression: str, n: int, drop: bool) -> None:
    mine = [ours(each, SHARDS) for each in even_splits(expression, n, drop_remainder=drop)]
    peer = [theirs(each, SHARDS) for each in tfds.even_splits(expression, n, drop_remainder=drop)]
    assert mine == peer


def test_parts_of_parts() -> None:
    half = even_splits("train", 2)[1]
    assert ours(even_splits(half, 5)[4], SHARDS) == [("train", 900, 1000)]


def test_the_last_shard_alone() -> None:
    assert resolve_split("train[-1shard]", SHARDS) == (SplitSlice("train", 667, 1000),)


def test_per_cent_with_the_remainder_dropped() -> None:
    (found,) = resolve_split("a[10%:30%]", {"a": [199]}, rounding="pct1_dropremainder")
    assert found == SplitSlice("a", 10, 30)
    with pytest.raises(SplitError, match="no examples"):
        resolve_split("a[:10%]", {"a": [99]}, rounding="pct1_dropremainder")


def test_an_unknown_split_says_what_there_is() -> None:
    with pytest.raises(UnknownReference) as caught:
        resolve_split("trian[:10]", SHARDS, where="digits:1.0.0")
    assert "Did you mean 'train'? The splits are train, test, empty." in str(caught.value)
    assert "digits:1.0.0" in str(caught.value)


@pytest.mark.parametrize(
    "expression",
    ["", "train[", "train[]", "train[:]x", "train[1:2:3]", "train[5]", "train[5%]", "train[1.5:]",
     "train[:10%:]", "train[1:5%]", "train[a:]", "train[::2]", "train++test", "all[:5]"],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(expression: str) -> None:
    with pytest.raises(SplitError):
        resolve_split(expression, SHARDS)


@pytest.mark.parametrize("expression", ["train[:1001]", "train[-1001:]", "test[101%:]"])
def test_leaving_the_split_is_refused(expression: str) -> None:
    with pytest.raises(SplitError, match="leaves the split"):
        resolve_split(expression, SHARDS)
