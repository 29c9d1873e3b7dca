"""The canonical encoding: equal exactly when type and value are equal."""

from __future__ import annotations

import math
import struct
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from provender.fingerprint import Hasher
from provender.fingerprint.encoding import MAPPING, SEQUENCE, SET, assemble, atom

atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.complex_numbers(),
)
hashable = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple), st.frozensets(inner, max_size=4)
    ),
    max_leaves=10,
)
values = st.recursive(
    hashable,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(hashable, inner, max_size=4)
    ),
    max_leaves=15,
)


def canon(value: Any) -> Any:
    """An independent picture of type and value, comparable with ``==``."""
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else struct.pack(">d", value + 0.0))
    if isinstance(value, complex):
        return ("complex", canon(value.real), canon(value.imag))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(canon, value))
    if isinstance(value, (set, frozenset)):
        return (type(value).__name__, tuple(sorted(map(repr, map(canon, value)))))
    if isinstance(value, dict):
        pairs = [(repr(canon(k)), canon(v)) for k, v in value.items()]
        return ("dict", tuple(sorted(pairs, key=repr)))
    return (type(value).__name__, value)


@given(values, values)
@settings(max_examples=120, deadline=None)
def test_equal_exactly_when_type_and_value_are(a: Any, b: Any) -> None:
    assert (Hasher.hash(a) == Hasher.hash(b)) == (canon(a) == canon(b))


@given(st.dictionaries(hashable, values, min_size=2, max_size=5))
@settings(max_examples=50, deadline=None)
def test_order_of_a_dict_does_not_count(value: dict[Any, Any]) -> None:
    assert Hasher.hash(value) == Hasher.hash(dict(reversed(value.items())))


@given(st.lists(values, min_size=2, max_size=5))
@settings(max_examples=50, deadline=None)
def test_order_of_a_list_counts(value: list[Any]) -> None:
    turned = value[::-1]
    assume(canon(value) != canon(turned))
    assert Hasher.hash(value) != Hasher.hash(turned)


@given(values)
@settings(max_examples=50, deadline=None)
def test_sharing_does_not_count(value: Any) -> None:
    import copy

    assert Hasher.hash([value, value]) == Hasher.hash([value, copy.deepcopy(value)])


@given(values)
@settings(max_examples=60, deadline=None)
def test_the_tree_bears_the_hash_and_survives_json(value: Any) -> None:
    from provender.fingerprint import Tree

    tree = Hasher.tree(value, "v")
    assert tree.digest == Hasher.hash(value)
    assert Tree.from_json(tree.to_json()) == tree


@given(st.lists(st.one_of(st.text(max_size=6), st.binary(max_size=6), st.integers()), max_size=6))
@settings(max_examples=100, deadline=None)
def test_joined_tokens_can_be_told_apart(parts: list[Any]) -> None:
    """No two sequences share their joined bytes: a token's length is known from its start."""
    data = b"".join(map(atom, parts))
    found = []
    at = 0
    while at < len(data):
        kind = data[at : at + 1]
        if kind == b"i":
            end = data.index(b";", at)
            found.append(int(data[at + 1 : end]))
            at = end + 1
            continue
        colon = data.index(b":", at)
        size = int(data[at + 1 : colon])
        raw = data[colon + 1 : colon + 1 + size]
        at = colon + 1 + size
        if kind == b"I":
            found.append(int.from_bytes(raw, "big", signed=True))
        else:
            found.append(raw.decode("utf-8", "surrogatepass") if kind == b"s" else raw)
    assert found == parts


def test_modes_are_told_apart() -> None:
    tokens = [atom("a"), atom("b")]
    assert len({assemble(b"t", mode, tokens) for mode in (SEQUENCE, SET, MAPPING)}) == 3


def test_digests_have_160_bits() -> None:
    assert len(Hasher.hash(1)) == 40
    assert len(Hasher.hash([1])) == 40


def test_long_texts_are_still_typed() -> None:
    text = "x" * 100_000
    assert Hasher.hash(text) != Hasher.hash(text.encode())


def test_nesting_of_any_depth() -> None:
    deep: Any = []
    for _ in range(20_000):
        deep = [deep]
    deeper = [deep]
    assert Hasher.hash(deep) != Hasher.hash(deeper)
    assert Hasher.tree(deep).digest == Hasher.hash(deep)
    while deep:  # taken down by hand, since freeing it at once is deep as well
        deep = deep.pop()


def test_shared_parts_cost_once() -> None:
    value: Any = [1]
    for _ in range(200):
        value = [value, value]
    assert Hasher.hash(value)


def test_a_cycle_has_one_digest_wherever_it_is_entered() -> None:
    a: dict[str, Any] = {"k": 1}
    b: dict[str, Any] = {"k": 1, "o": a}
    a["o"] = b
    assert Hasher.hash(a) == Hasher.hash(b)
    before = Hasher.hash(a)
    b["k"] = 2
    assert Hasher.hash(a) != before
    assert Hasher.hash(a) != Hasher.hash(b)


def test_a_long_cycle_shows_a_change_far_away() -> None:
    nodes: list[dict[str, Any]] = [{"n": 0} for _ in range(500)]
    for at, node in enumerate(nodes):
        node["next"] = nodes[(at + 1) % 500]
        node["previous"] = nodes[at - 1]
    before = Hasher.hash(nodes[0])
    nodes[250]["n"] = 1
    assert Hasher.hash(nodes[0]) != before
