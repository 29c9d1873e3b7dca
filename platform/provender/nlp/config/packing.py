"""The configuration of packing, `DataConfig.packing`."""

from __future__ import annotations

import dataclasses

from provender.nlp.config.base import Config


@dataclasses.dataclass
class PackingConfig(Config):
    """How several short examples share one row.

    With packing, ``global_batch_size`` counts packed rows.

    Attributes:
        seq_length: tokens of a packed row; None takes the loader's.
        max_predictions_per_seq: mask slots of a packed row; None takes the loader's.
        max_segments: examples in a row at most. Labels of examples have so many columns.
        open_rows: rows that are filled at a time; None keeps all of a buffer's open until its end.
            Give a number, such as 64, only with `decreasing` off.
        buffer_size: examples that are packed together; each buffer's rows are its own.
        decreasing: place the longest of a buffer first, which packs best; otherwise examples are
            placed as they arrive.
    """

    seq_length: int | None = None
    max_predictions_per_seq: int | None = None
    max_segments: int = 8
    open_rows: int | None = None
    buffer_size: int = 1024
    decreasing: bool = True
