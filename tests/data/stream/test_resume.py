"""Going on from every position: every operator, and random chains of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.data.stream.chains import APPLY, build, chains
from tests.data.stream.exact import (
    KINDS,
    assert_exact_resume,
    make_source,
    rest_in_new_process,
    rows_of,
    walked,
)

from provender.data.stream import IterableDataset

pytestmark = pytest.mark.timeout(120)

ONE_EACH = {
    "map doubled": (4,),
    "map thinned": (4, True),
    "filter batched": (4,),
    "shuffle": (1, 7, 2),
    "take": (17,),
    "skip": (9,),
    "repeat": (2,),
    "batch and back": (4, False),
    "interleave": ("all_exhausted",),
    "interleave drawn": (0.3, "all_exhausted_without_replacement"),
    "node": (1, 2),
    "node equal": ("pad",),
    "prefetch": (1,),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", list(APPLY))
def test_every_operator_goes_on_from_everywhere(name: str, kind: str) -> None:
    chain = (kind, 37, 4, [(name, *ONE_EACH.get(name, ()))])
    assert_exact_resume(lambda: build(chain))


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(chains)
def test_random_chains_go_on_from_everywhere(chain: Any) -> None:
    assert_exact_resume(lambda: build(chain), epoch=1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(chains)
def test_many_random_chains_go_on_from_everywhere(chain: Any) -> None:
    assert_exact_resume(lambda: build(chain), epoch=2)


PROGRAM = """
from tests.data.stream.chains import build
chain = {chain!r}
def make():
    return build(chain)
"""


@pytest.mark.parametrize(
    "chain",
    [
        ("table", 60, 4, [("map numbered",), ("shuffle", 1, 9, 2), ("filter",)]),
        (
            "counted",
            60,
            4,
            [("interleave drawn", 0.3, "all_exhausted"), ("batch and back", 4, False)],
        ),
        ("uncounted", 60, 4, [("map doubled", 7), ("shuffle", 0, 20, 3), ("map",)]),
    ],
    ids=["shuffle", "interleave", "changed number of rows"],
)
def test_another_process_goes_on(chain: Any) -> None:
    rows, states = walked(build(chain))
    for at in (1, 23, len(rows) - 1):
        found = rest_in_new_process(PROGRAM.format(chain=chain), json.loads(states[at]))
        assert found == rows[at:]


def test_the_helper_notices_a_stream_that_does_not_go_on_exactly() -> None:
    """A function that counts its calls makes other rows after a resume."""

    def make() -> IterableDataset:
        calls = iter(range(1000))
        return IterableDataset(make_source("table", 5, 1)).map(lambda row: {"n": next(calls)})

    with pytest.raises(AssertionError):
        assert_exact_resume(make)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["map", "filter", "shuffle", "skip", "interleave", "node"])
def test_far_steps_that_seek_rows_by_number(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps that are long for these few rows: rows are looked for by number, not read up to."""
    monkeypatch.setattr("provender.data.stream.leaf._FAR", 3)
    monkeypatch.setattr("provender.data.stream.shuffle._AT_ONCE", 2)
    steps = [(name, *ONE_EACH.get(name, ())), ("map",)]
    rows = assert_exact_resume(lambda: build((kind, 90, 4, steps)), range(0, 45, 4))
    for count in (1, 5, 20, 40, len(rows) - 1, len(rows), len(rows) + 3):
        assert rows_of(build((kind, 90, 4, [*steps, ("skip", count)]))) == rows[count:]
