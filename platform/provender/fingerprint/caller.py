"""Where the user's own code called, for warnings that show that line."""

from __future__ import annotations

import os
import sys

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def users_level() -> int:
    """The ``stacklevel`` at which `warnings.warn`, called beside this, shows the user's line.

    That is the nearest one outside of this package.
    """
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        level += 1
    return level
