"""`Dataset`: an Arrow table with an order, features, a format and a fingerprint."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

# Loaded with `Dataset`, so that the first map takes no longer than the others. Arrow loads pandas at
# its first conversion in any case.
with contextlib.suppress(ImportError):
    import pandas  # noqa: F401

import provender.data.cache.folder
import provender.data.dataset.engine
import provender.data.features
import provender.data.formats.python
import provender.fingerprint.hasher  # noqa: F401
from provender.data.dataset.access import Access
from provender.data.dataset.base import Base, with_metadata
from provender.data.dataset.chain import Print, content_print
from provender.data.dataset.construct import Construct
from provender.data.dataset.export import Export
from provender.data.dataset.formatting import Format
from provender.data.dataset.info import DatasetInfo
from provender.data.dataset.labels import Labels
from provender.data.dataset.mapping import Mapped
from provender.data.dataset.saving import Saving
from provender.data.dataset.tables import Rows, as_rows
from provender.data.dataset.tensors import Tensors
from provender.data.named_split import NamedSplit

if TYPE_CHECKING:
    from provender.data.features import Features

__all__ = ["Base", "Dataset"]


class Dataset(Tensors, Export, Saving, Construct, Mapped, Labels, Access, Sequence[Any]):
    """Rows with named, typed columns, readable in any order.

    Rows lie in an Arrow table, in memory or memory-mapped from the transform cache, so a dataset
    may be larger than memory. A dataset does not change: transforms return a new one, and every
    one has a fingerprint that says what its rows are. ``set_format``, ``reset_format`` and
    ``set_transform`` alone work in place; they change how rows are given, not what they are.

    Args:
        arrow_table: the rows; an ``pyarrow.Table``.
        info: what is known about them.
        split: name of the split.
        indices_table: a table with one column of row numbers, which is the order of the dataset.
        fingerprint: what the rows are, if it is known; by default it follows from their content.
    """

    def __init__(
        self,
        arrow_table: pa.Table,
        info: DatasetInfo | None = None,
        split: Any = None,
        indices_table: pa.Table | None = None,
        fingerprint: str | None = None,
    ) -> None:
        from provender.data.features import Features

        features = info.features if info is not None else None
        if features is None:
            features = Features.from_arrow_schema(arrow_table.schema)
        self._data = with_metadata(arrow_table, features)
        self._rows = Rows(self._data)
        self._features = features
        self._info = info.copy() if info is not None else DatasetInfo()
        self._split = None if split is None else str(split)
        self._indices = None if indices_table is None else as_rows(indices_table.column(0))
        self._format = Format()
        self._formatter_made = None
        self._keep = ()
        self._lineage = ()
        if fingerprint is not None:
            self._print = Print(fingerprint)
        else:
            self._print = content_print(self._data, features)
            if self._indices is not None:
                self._print = self._print.then("select 1", rows=self._indices)

    @property
    def features(self) -> Features:
        """Column name -> type."""
        return self._features

    @property
    def info(self) -> DatasetInfo:
        """What is known about the dataset, with its features."""
        info = self._info.copy()
        info.features = self._features
        return info

    @property
    def split(self) -> NamedSplit | None:
        """Name of the split, e.g. ``train``."""
        return None if self._split is None else NamedSplit(self._split)

    @property
    def data(self) -> pa.Table:
        """The Arrow table; its rows may lie in another order than the dataset's."""
        return self._data

    @property
    def num_columns(self) -> int:
        """Number of columns."""
        return len(self._features)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, number of columns."""
        return len(self), len(self._features)

    @property
    def description(self) -> str:
        """What the dataset is, for people."""
        return self._info.description

    @property
    def citation(self) -> str:
        """How to cite it."""
        return self._info.citation

    @property
    def homepage(self) -> str:
        """Where to read about it."""
        return self._info.homepage

    @property
    def license(self) -> str:
        """Under which terms it may be used."""
        return self._info.license

    @property
    def builder_name(self) -> str | None:
        """Name of the builder that made it."""
        return self._info.builder_name

    @property
    def config_name(self) -> str | None:
        """Name of the builder's configuration."""
        return self._info.config_name

    @property
    def version(self) -> str | None:
        """Version of the published dataset."""
        return self._info.version

    @property
    def supervised_keys(self) -> Any:
        """What the builder calls input and target."""
        return self._info.supervised_keys

    @property
    def download_checksums(self) -> dict[str, Any] | None:
        """URL -> checksum of what it was built from."""
        return self._info.download_checksums

    @property
    def download_size(self) -> int | None:
        """Bytes of what it was built from."""
        return self._info.download_size

    @property
    def dataset_size(self) -> int | None:
        """Bytes of its rows where it was published."""
        return self._info.dataset_size

    @property
    def size_in_bytes(self) -> int | None:
        """Bytes of both."""
        return self._info.size_in_bytes

    @property
    def nbytes(self) -> int:
        """Bytes of the columns in Arrow form, of all rows of the table."""
        return int(self._data.nbytes)

    @property
    def cache_files(self) -> list[dict[str, str]]:
        """The files that the rows are read from, as ``[{"filename": path}, ...]``."""
        return [
            {"filename": str(entry.folder / each.file)}
            for entry in self._keep
            for each in entry.segments
        ]

    def cleanup_cache_files(self) -> int:
        """Removes cached results of transforms of this dataset that nobody uses.

        Returns:
            How many files went.
        """
        from provender.data.dataset.storing import remove_results_of

        return remove_results_of(self._fingerprint, self._keep)

    def __repr__(self) -> str:
        return f"Dataset({{\n    features: {self.column_names},\n    num_rows: {self.num_rows}\n}})"

    def __copy__(self) -> Self:
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Tables never change, so a deep copy needs none.
        new = copy.copy(self)
        new._info = copy.deepcopy(self._info, memo)
        return new

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._keep = ()

    def __fingerprint__(self) -> object:
        """What `Hasher` takes for the dataset, e.g. where a function refers to it."""
        chosen = self._format
        return self._print.lasting(), chosen.type, chosen.columns, dict(chosen.kwargs)
