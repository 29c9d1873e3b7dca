"""One order for any number of hosts: nothing twice, nothing left out, equal steps."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.errors import SettingsError
from provender.nlp.order.plan import GlobalOrder, HostSlice, SourceFacts, endless, one_pass

SEEDS = st.one_of(st.none(), st.integers(0, 2**40))


def order_of(lengths: list[int], shares: list[int], seed: int | None, **one: bool) -> GlobalOrder:
    facts = [SourceFacts(f"s{at}", length, "") for at, length in enumerate(lengths)]
    phases = one_pass(lengths, shares, **one) if one else endless(0, shares, [0] * len(lengths))
    return GlobalOrder(facts, phases, seed)


def elements(order: GlobalOrder, places: np.ndarray) -> list[tuple[int, int]]:
    sources, records = order.at(places)
    return list(zip(sources.tolist(), records.tolist(), strict=True))


@given(st.integers(1, 8), st.integers(1, 5), st.integers(1, 300), SEEDS)
def test_an_epoch_on_any_number_of_hosts(
    hosts: int, per_host: int, records: int, seed: int | None
) -> None:
    """All hosts together read the order of one host, step by step; each epoch is complete."""
    batch, order = hosts * per_host, order_of([records], [1], seed)
    steps = 3 * -(-records // batch)
    slices = [HostSlice(index, hosts, batch) for index in range(hosts)]
    shares = [each.places(0, steps * per_host) for each in slices]
    assert {len(each) for each in shares} == {steps * per_host}
    together = np.stack([each.reshape(steps, per_host) for each in shares], axis=1)
    assert together.reshape(-1).tolist() == list(range(steps * batch))
    for epoch in range(steps * batch // records):
        one = order.at(np.arange(epoch * records, (epoch + 1) * records))[1]
        assert sorted(one.tolist()) == list(range(records))


@given(st.integers(1, 8), st.integers(1, 5), st.integers(0, 300), st.booleans())
def test_one_pass_on_any_number_of_hosts(
    hosts: int, per_host: int, records: int, drop: bool
) -> None:
    batch = hosts * per_host
    slices = [HostSlice(at, hosts, batch, 0, records, drop) for at in range(hosts)]
    shares = [each.places(0, len(each)).tolist() for each in slices]
    full = records // batch
    kept = full * batch if drop else records
    assert Counter(at for share in shares for at in share) == Counter(range(kept))
    for step in range(full):
        own = slice(step * per_host, (step + 1) * per_host)
        together = [at for share in shares for at in share[own]]
        assert together == list(range(step * batch, (step + 1) * batch))
    if drop or (records - full * batch) >= hosts or records == full * batch:
        assert len({-(-len(share) // per_host) for share in shares}) == 1


@given(st.integers(1, 8), st.integers(0, 500), st.integers(1, 50))
def test_any_stretch_of_a_host_is_part_of_its_whole(hosts: int, first: int, count: int) -> None:
    own = HostSlice(hosts - 1, hosts, 3 * hosts, start=11)
    whole = own.places(0, first + count)
    assert own.places(first, first + count).tolist() == whole[first:].tolist()


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 9)), min_size=1, max_size=4).filter(
        lambda rows: any(share for _, share in rows)
    ),
    SEEDS,
)
def test_one_pass_of_a_mixture(rows: list[tuple[int, int]], seed: int | None) -> None:
    lengths, shares = [list(each) for each in zip(*rows, strict=True)]
    whole = order_of(lengths, shares, seed, stop_on_empty=False)
    assert whole.stop == sum(length for length, share in rows if share)
    found = elements(whole, np.arange(whole.stop))
    wanted = {(at, i) for at, (length, share) in enumerate(rows) if share for i in range(length)}
    assert len(found) == len(set(found))
    assert set(found) == wanted
    assert whole.counts(whole.stop) == [length if share else 0 for length, share in rows]
    first = order_of(lengths, shares, seed, stop_on_empty=True)
    assert elements(first, np.arange(first.stop)) == found[: first.stop]
    emptied = [
        n for n, length in zip(first.counts(first.stop), lengths, strict=True) if n == length
    ]
    assert emptied
    # A step further would ask the source that ended for more.
    assert max(n - length for n, length in zip(_next_counts(first), lengths, strict=True)) == 1


def _next_counts(order: GlobalOrder) -> list[int]:
    return order.phases[0].counts((order.stop or 0) + 1)


def test_epochs_and_seeds_and_sources_have_orders_of_their_own() -> None:
    order = order_of([1000, 1000], [1, 1], 7)
    sources, records = order.at(np.arange(4000))
    first, second = (records[sources == at] for at in (0, 1))
    other = order_of([1000], [1], 8).at(np.arange(1000))[1]
    lists = [first[:1000], first[1000:], second[:1000], other, np.arange(1000)]
    for at, one in enumerate(lists):
        for another in lists[at + 1 :]:
            assert (one == another).mean() < 0.02


def test_an_order_of_a_billion_records_needs_no_memory() -> None:
    order = order_of([10**9], [1], 3)
    records = order.at(np.arange(5 * 10**8, 5 * 10**8 + 1000))[1]
    assert len(set(records.tolist())) == 1000
    assert 0 <= records.min() < records.max() < 10**9


def test_the_order_stays_what_it_was() -> None:
    """A change here would break every saved state."""
    order = order_of([5, 9], [1, 2], 42)
    pinned = [(1, 7), (0, 0), (1, 6), (1, 8), (0, 4), (1, 1), (1, 0), (0, 3)]
    assert elements(order, np.arange(8)) == pinned
    large = order_of([100_000], [1], 42)
    assert large.at(np.arange(4))[1].tolist() == [1538, 94646, 94901, 8487]


def test_a_source_without_records() -> None:
    assert order_of([0, 4], [0, 1], 1).at(np.arange(4))[0].tolist() == [1] * 4
    with pytest.raises(SettingsError, match="has no records"):
        order_of([0, 4], [1, 1], 1)


@pytest.mark.parametrize(("index", "hosts", "batch"), [(2, 2, 4), (-1, 2, 4), (0, 3, 4), (0, 1, 0)])
def test_slices_that_make_no_sense(index: int, hosts: int, batch: int) -> None:
    with pytest.raises(SettingsError):
        HostSlice(index, hosts, batch)
