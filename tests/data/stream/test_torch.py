"""torch's loaders with no worker to six: every row once, and going on exactly.

torch is an extra of its own; where it is not installed these tests say so.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from tests.data.stream.exact import KINDS, make_source, together

from provender.data.stream import IterableDataset, concatenate_streams, split_dataset_by_node

torch = pytest.importorskip(
    "torch", reason="torch is not installed; it is optional: pip install torch torchdata"
)
pytest.importorskip("torchdata", reason="torchdata is not installed: pip install torchdata")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
WORKERS = (0, 1, 2, 3, 6)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def stream(total: int = 2000, shards: int = 4, kind: str = "table") -> IterableDataset:
    return IterableDataset(make_source(kind, total, shards))


def loaded(ds: IterableDataset, workers: int, **kwargs: Any) -> list[list[int]]:
    from torch.utils.data import DataLoader

    kwargs.setdefault("batch_size", 10)
    return [_ids(batch) for batch in DataLoader(ds, num_workers=workers, **kwargs)]


def _ids(batch: Any) -> list[int]:
    found = batch["i"]
    return found.tolist() if hasattr(found, "tolist") else list(found)


def flat(batches: list[list[int]]) -> list[int]:
    return [number for batch in batches for number in batch]


def test_a_stream_is_a_torch_dataset() -> None:
    import torch.utils.data

    ds = stream().with_format("torch")
    assert isinstance(ds, torch.utils.data.IterableDataset)
    assert isinstance(ds.map(lambda row: row).take(3), torch.utils.data.IterableDataset)
    assert isinstance(next(iter(ds))["i"], torch.Tensor)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", WORKERS)
def test_every_row_once_whatever_the_number_of_workers(workers: int, kind: str) -> None:
    assert sorted(flat(loaded(stream(kind=kind), workers))) == list(range(2000))


def test_more_workers_than_shards_are_all_busy() -> None:
    def which(row: dict[str, Any]) -> dict[str, Any]:
        import torch.utils.data

        return {"i": torch.utils.data.get_worker_info().id}

    assert set(flat(loaded(stream().map(which), 6))) == set(range(6))


def test_nodes_with_workers() -> None:
    for world in (2, 3):
        ds = stream().shuffle(seed=1, buffer_size=100)
        shares = [flat(loaded(split_dataset_by_node(ds, rank, world), 2)) for rank in range(world)]
        assert sorted(together(shares)) == list(range(2000))


def test_the_first_rows_are_the_first_rows() -> None:
    assert sorted(flat(loaded(stream().take(100), 2))) == list(range(100))
    assert sorted(flat(loaded(stream().skip(1900), 3))) == list(range(1900, 2000))


def test_concatenated_and_shuffled() -> None:
    ds = concatenate_streams([stream(), stream()]).shuffle(seed=1, buffer_size=100)
    assert len(flat(loaded(ds, 4))) == 4000


def test_batches_made_by_the_stream_come_in_one_order_for_any_number_of_workers() -> None:
    def make() -> IterableDataset:
        return stream().shuffle(seed=1, buffer_size="global").batch(32)

    orders = [loaded(make(), workers, batch_size=None) for workers in WORKERS]
    assert all(order == orders[0] for order in orders)


def test_workers_that_live_on_see_the_epoch() -> None:
    from torch.utils.data import DataLoader

    ds = stream().shuffle(seed=1, buffer_size=100)
    loader = DataLoader(ds, batch_size=10, num_workers=2, persistent_workers=True)
    first = [_ids(batch) for batch in loader]
    ds.set_epoch(1)
    assert [_ids(batch) for batch in loader] != first
    ds.set_epoch(0)
    assert [_ids(batch) for batch in loader] == first


CHAINS: dict[str, Callable[[], IterableDataset]] = {
    "plain": stream,
    "map batched": lambda: stream().map(_plus_one, batched=True, batch_size=50),
    "filter": lambda: stream().filter(lambda row: row["i"] % 3 > 0),
    "shuffle": lambda: stream().shuffle(seed=1, buffer_size=100),
    "global shuffle": lambda: stream().shuffle(seed=1, buffer_size="global"),
    "one of three nodes": lambda: split_dataset_by_node(stream(), 1, 3),
}


def _plus_one(batch: dict[str, list[int]]) -> dict[str, list[int]]:
    return {"j": [value + 1 for value in batch["i"]]}


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("name", list(CHAINS))
def test_a_stateful_loader_goes_on_exactly(name: str, workers: int) -> None:
    from torchdata.stateful_dataloader import StatefulDataLoader

    def loader() -> Any:
        return StatefulDataLoader(CHAINS[name](), batch_size=10, num_workers=workers)

    whole = [_ids(batch) for batch in loader()]
    for at in (1, 37):
        running = loader()
        list(islice(iter(running), at))
        fresh = loader()
        fresh.load_state_dict(
            json.loads(json.dumps(running.state_dict())) if not workers else running.state_dict()
        )
        assert [_ids(batch) for batch in fresh] == whole[at:]
