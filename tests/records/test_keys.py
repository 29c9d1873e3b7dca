"""Key digests against TFDS's hasher and its sort order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provender.errors import BuilderError
from provender.records import KeyHasher

KEYS = st.one_of(
    st.text(), st.binary(), st.integers(), st.booleans(), st.integers().map(lambda n: np.array([n]))
)


@settings(deadline=None)
@given(salt=st.text(max_size=10), keys=st.lists(KEYS, max_size=5))
def test_digest_is_tfds_hash(salt: str, keys: list[Any]) -> None:
    from tensorflow_datasets.core import hashing

    keys = [int(k.item()) if isinstance(k, np.ndarray) and k.dtype == object else k for k in keys]
    theirs = hashing.Hasher(salt)
    expected = [theirs.hash_key(key).to_bytes(16, "big") for key in keys]
    ours = KeyHasher(salt)
    assert [ours.digest(key, 0) for key in keys] == expected
    assert ours.digests(keys, 0) == b"".join(expected)


@settings(deadline=None)
@given(keys=st.lists(st.text(), min_size=1))
def test_a_batch_of_texts_equals_one_by_one(keys: list[str]) -> None:
    hasher = KeyHasher("train")
    assert hasher.digests(keys, 7) == b"".join(hasher.digest(key, 7) for key in keys)


@settings(deadline=None)
@given(
    st.lists(st.integers(-(2**100), 2**100), min_size=2)
    | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2)
)
def test_in_order_digests_sort_like_the_numbers(numbers: list[int]) -> None:
    hasher = KeyHasher("train", in_order=True)
    assert sorted(numbers) == sorted(numbers, key=lambda n: hasher.digest(n, 0))
    assert hasher.digests(numbers, 0) == b"".join(hasher.digest(n, 0) for n in numbers)


def test_in_order_uses_the_position_where_the_key_is_no_int() -> None:
    hasher = KeyHasher("train", in_order=True)
    assert hasher.digest("b", 5) == hasher.digest(5, 0) < hasher.digest("a", 6)
    assert hasher.digests(["x", 3], 9) == hasher.digest(9, 0) + hasher.digest(3, 0)


@pytest.mark.parametrize("key", [None, 1.5, ("a",), np.int64(3), np.array([1, 2]), "\ud800"])
def test_keys_that_tfds_refuses(key: Any) -> None:
    with pytest.raises(BuilderError) as caught:
        KeyHasher("train").digests([key], 41)
    assert caught.value.facts["position"] == 41


def test_an_int_too_large_to_order_by() -> None:
    with pytest.raises(BuilderError, match="too large"):
        KeyHasher("train", in_order=True).digest(1 << 127, 3)


@settings(deadline=None)
@given(
    places=st.lists(st.integers(0, 2**128 - 1), min_size=1, max_size=50),
    shards=st.integers(1, 40),
)
def test_ranges_follow_the_order(places: list[int], shards: int) -> None:
    from provender.records.shards import range_shard

    found = [range_shard(place, shards, max(places)) for place in sorted(places)]
    assert found == sorted(found)
    assert found[0] >= 0
    assert found[-1] == (shards - 1 if max(places) else 0)


@given(key=st.integers(-(2**100), 2**100))
def test_places_are_what_tfds_sorts_by(key: int) -> None:
    from tensorflow_datasets.core import hashing

    hashed, plain = KeyHasher("train"), KeyHasher("train", in_order=True)
    assert hashed.place(hashed.digest(key, 0)) == hashing.Hasher("train").hash_key(key)
    assert plain.place(plain.digest(key, 0)) == key
