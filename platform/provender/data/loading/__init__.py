"""`load_dataset`: from a name, a format, a file or a folder to datasets.

data_files   which files belong to which split
formats      which source reads which kind of file
splits       split expressions over sources
references   published versions and builders
entry        `load_dataset` itself
"""

from __future__ import annotations

from provender.data.loading.entry import load_dataset

__all__ = ["load_dataset"]
