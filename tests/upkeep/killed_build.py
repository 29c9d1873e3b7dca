"""A build that kills itself, without any chance to clear up, the first time it reaches a place.

python killed_build.py HOME BUILDER_FILE MODULE:NAME [before|after]
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import sys
from pathlib import Path


def main() -> None:
    home, file, place, when = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    spec = importlib.util.spec_from_file_location("c", Path(__file__).with_name("conftest.py"))
    assert spec and spec.loader
    conftest = importlib.util.module_from_spec(spec)
    sys.modules["c"] = conftest
    spec.loader.exec_module(conftest)
    module, _, name = place.partition(":")
    owner = importlib.import_module(module)
    for part in name.split(".")[:-1]:
        owner = getattr(owner, part)
    name = name.rsplit(".", 1)[-1]
    real = getattr(owner, name)

    def fatal(*args: object, **kwargs: object) -> object:
        if when == "after":
            real(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    setattr(owner, name, fatal)
    conftest.make(file, conftest.settings_for(home))


if __name__ == "__main__":
    main()
