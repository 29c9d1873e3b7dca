"""`IterableDataset`: a stream of rows that can go on from anywhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from provender.data.stream.outputs import Outputs
from provender.errors import SettingsError


class IterableDataset(Outputs):
    """Rows read one after another, never all at once.

    Operators (`map`, `filter`, `shuffle`, ...) return new streams and read nothing. Iterating
    makes a pass; `state_dict` says where it is, `load_state_dict` lets the next pass go on from
    there, in any process.

        ds = provender.load_dataset("speech:1.2.0", split="train", streaming=True)
        ds = ds.shuffle(seed=7, buffer_size="global").map(tokenize, remove_columns=["text"])
        for row in ds: ...

    Where torch is in use a stream is a ``torch.utils.data.IterableDataset`` as well.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> IterableDataset:
        del args, kwargs
        return object.__new__(_torch_class() if cls is IterableDataset and _torch_loaded() else cls)

    def _derived(self, node: Any) -> Any:
        new = super()._derived(node)
        return new._torched(needed=False)

    def _torched(self, needed: bool) -> Any:
        if type(self) is IterableDataset and (needed or _torch_loaded()):
            kind = _torch_class()
            new = object.__new__(kind)
            new.__dict__.update(self.__dict__)
            new._own_epoch()
            return new
        return self

    def _own_epoch(self) -> None:
        """For subclasses whose epoch is shared between processes."""


def _torch_loaded() -> bool:
    return "torch.utils.data" in sys.modules


def _torch_class() -> Any:
    from provender.data.stream.torch_bridge import TorchIterableDataset

    return TorchIterableDataset


def split_dataset_by_node(
    dataset: Any,
    rank: int,
    world_size: int,
    strategy: str = "auto",
    equal: str | None = None,
) -> Any:
    """The rows of one node out of several.

    Args:
        dataset: the stream, the same on every node; or a `Dataset`, of which every node gets a
            contiguous range of rows.
        rank: number of this node.
        world_size: how many there are.
        strategy: "shards" gives whole shards; "examples" every `world_size`-th row, in which
            case a position fits every node, and any number of nodes; "auto" gives shards where
            they come out even, else examples.
        equal: gives every node as many rows: "drop" leaves out the last rows, "pad" repeats some,
            "balance" gives contiguous ranges by the known number of rows.

    Raises:
        SettingsError: arguments that make no sense.
    """
    if isinstance(dataset, IterableDataset):
        return dataset._split_by_node(rank, world_size, strategy, equal)
    if strategy != "auto" or equal is not None:
        raise SettingsError(
            "strategy and equal are for streams; a Dataset is split into even ranges of rows.",
            where="split_dataset_by_node",
            hint="Leave them out, or use dataset.to_iterable_dataset().",
        )
    return dataset.shard(num_shards=world_size, index=rank, contiguous=True)


class IterableDatasetDict(dict[str, IterableDataset]):
    """Streams by the name of their split; operators apply to each of them."""

    def _each(self, name: str, *args: Any, **kwargs: Any) -> IterableDatasetDict:
        return IterableDatasetDict(
            {split: getattr(stream, name)(*args, **kwargs) for split, stream in self.items()}
        )

    @property
    def num_shards(self) -> Mapping[str, int]:
        """Shards of each split."""
        return {split: stream.num_shards for split, stream in self.items()}

    @property
    def column_names(self) -> Mapping[str, list[str] | None]:
        """Columns of each split."""
        return {split: stream.column_names for split, stream in self.items()}

    @property
    def num_columns(self) -> Mapping[str, int | None]:
        """How many columns each split has."""
        return {split: stream.num_columns for split, stream in self.items()}

    def set_epoch(self, epoch: int) -> None:
        """Says for all of them which pass comes next."""
        for stream in self.values():
            stream.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The positions of all of them."""
        return {split: stream.state_dict() for split, stream in self.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Lets the next passes go on from positions, split by split."""
        for split, each in state.items():
            self[split].load_state_dict(each)

    def __repr__(self) -> str:
        lines = "\n".join(f"{split}: {stream!r}" for split, stream in self.items())
        return (
            "IterableDatasetDict({\n"
            + "\n".join(f"    {line}" for line in lines.split("\n"))
            + "\n})"
        )


def _forwarding(name: str) -> Any:
    def forward(self: IterableDatasetDict, *args: Any, **kwargs: Any) -> IterableDatasetDict:
        return self._each(name, *args, **kwargs)

    forward.__name__ = name
    forward.__doc__ = f"`IterableDataset.{name}` of every split."
    return forward


for _name in (
    "map filter shuffle skip take repeat shard reshard batch unbatch rename_column rename_columns "
    "remove_columns select_columns add_column cast cast_column decode with_format prefetch"
).split():
    setattr(IterableDatasetDict, _name, _forwarding(_name))
