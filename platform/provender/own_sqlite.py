"""Python's `sqlite3`, bound to the SQLite that it was made for.

TensorFlow brings a SQLite of its own, without full-text search, and once it is loaded its functions take the
place of the system's in every library that is loaded later. A library that looks among its own dependencies
first is not caught by that.
"""

from __future__ import annotations

import os
import sys

__all__ = ["sqlite3"]

if "_sqlite3" not in sys.modules and hasattr(os, "RTLD_DEEPBIND"):
    _flags = sys.getdlopenflags()
    sys.setdlopenflags(_flags | os.RTLD_DEEPBIND)
    try:
        import sqlite3
    finally:
        sys.setdlopenflags(_flags)
else:
    import sqlite3
