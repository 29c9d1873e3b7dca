"""A sweep in a process of its own, which may kill itself in the middle.

python gc_program.py HOME GRACE_SECONDS KEEP [MODULE:NAME [before|after [COUNT]]]

KEEP 0 keeps all. With a place given, the process kills itself without any chance to clear up when it
reaches it for the COUNTth time.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path


def deadly(place: str, when: str, count: int) -> None:
    module, _, name = place.partition(":")
    owner = importlib.import_module(module)
    real = getattr(owner, name)
    left = [count]

    def fatal(*args: object, **kwargs: object) -> object:
        left[0] -= 1
        if left[0]:
            return real(*args, **kwargs)
        if when == "after":
            real(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    setattr(owner, name, fatal)


def main() -> None:
    from provender.catalog import Catalog
    from provender.store import Store
    from provender.upkeep.gc import sweep

    home, grace, keep = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]) or None
    if len(sys.argv) > 4:
        deadly(sys.argv[4], sys.argv[5], int(sys.argv[6]) if len(sys.argv) > 6 else 1)
    spec = importlib.util.spec_from_file_location("c", Path(__file__).with_name("conftest.py"))
    assert spec and spec.loader
    conftest = importlib.util.module_from_spec(spec)
    sys.modules["c"] = conftest
    spec.loader.exec_module(conftest)
    settings = conftest.settings_for(home)
    catalog, store = Catalog.open(settings.catalog), Store.open(settings.store)
    report = sweep(settings, catalog, store, grace=timedelta(seconds=grace), keep=keep)
    print(json.dumps(report.to_json()))


if __name__ == "__main__":
    main()
