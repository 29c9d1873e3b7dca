"""Dataset builders: the contract, how they are found and loaded, and those that ship.

`DatasetBuilder` and `FileAdapterBuilder` are imported on first use, since they need
tensorflow_datasets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.builders.contract import DatasetBuilder as DatasetBuilder
    from provender.builders.contract import FileAdapterBuilder as FileAdapterBuilder

__all__ = ["DatasetBuilder", "FileAdapterBuilder"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from provender.builders import contract

    return getattr(contract, name)
