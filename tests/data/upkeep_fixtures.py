"""The small published version that the tests of upkeep use."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

UPKEEP = Path(__file__).parents[1] / "upkeep" / "conftest.py"


def upkeep() -> ModuleType:
    key = "provender_upkeep_tests_conftest"
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, UPKEEP)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[key] = module
        spec.loader.exec_module(module)
    return sys.modules[key]


notes = upkeep().notes
