"""Streams as datasets of torch. Imported only where torch is."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils.data

from provender.data.stream.dataset import IterableDataset


class TorchIterableDataset(IterableDataset, torch.utils.data.IterableDataset):  # type: ignore[misc]
    """A stream that torch's loaders take: workers share out its rows, each row once.

    The epoch lies in shared memory, so that `set_epoch` reaches workers that go on living.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._own_epoch()

    def _own_epoch(self) -> None:
        self._epoch: Any = torch.tensor(int(self._epoch), dtype=torch.int64).share_memory_()

    def _derived(self, node: Any) -> Any:
        new = super()._derived(node)
        new._own_epoch()
        return new

    def _put_epoch(self, epoch: int) -> None:
        self._epoch.fill_(epoch)
