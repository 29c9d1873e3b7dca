"""Orders of rows that are kept in the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from provender.data.dataset.base import Base
from provender.data.dataset.chain import Print
from provender.data.dataset.storing import obtain

if TYPE_CHECKING:
    from provender.data.cache import Work


def kept_rows(
    fingerprint: Print,
    transform: str,
    dataset: Base,
    parameters: Mapping[str, Any],
    make: Callable[[], np.ndarray],
    *,
    reuse: bool | None,
) -> np.ndarray:
    """Row numbers from the cache, or computed and kept there.

    Args:
        fingerprint: of the dataset in that order.
        transform: its name, for people and lineage.
        dataset: what is ordered.
        parameters: of the transform.
        make: computes the order.
        reuse: as for `obtain`.
    """
    from provender.data.cache import Recipe
    from provender.data.features import Features, Value

    def compute(work: Work) -> None:
        work.missing(1)
        rows = make()
        with work.segment(0, 1) as out:
            out.write(pa.table({"indices": pa.array(rows, pa.uint64())}))
        work.commit(Features({"indices": Value("uint64")}))

    info = dataset._info
    recipe = Recipe(
        transform=transform,
        dataset=info.dataset_name or "",
        config=info.config_name or "",
        parents=dataset._lineage,
        parameters={
            "input": dataset._fingerprint,
            **{key: repr(value) for key, value in parameters.items()},
        },
    )
    passing = fingerprint.passing
    entry = obtain(
        fingerprint.get(), recipe, compute, reuse=reuse, not_kept=passing, held=passing is not None
    )
    assert entry is not None
    column = entry.table().column(0)
    return np.concatenate([np.asarray(each) for each in column.chunks]).astype(np.int64)
