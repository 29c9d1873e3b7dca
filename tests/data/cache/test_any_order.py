"""Whatever happens to a cache, in whatever order: what is found is right, and no row is lost."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.data.cache.programs import compute, is_right

from provender.data.cache import TransformCache
from provender.data.cache.upkeep import evict, verify

NAMES = ["aa" * 20, "bb" * 20, "cc" * 20]
TOTAL = 40
names = st.sampled_from(NAMES)


class Anything(RuleBasedStateMachine):
    """Three results, computed, broken, evicted, moved and computed again."""

    @initialize()
    def begin(self) -> None:
        self.base = Path(tempfile.mkdtemp())
        self.number = 0
        self.whole: set[str] = set()
        self.cache = TransformCache(self.base / "0")

    def teardown(self) -> None:
        shutil.rmtree(self.base, ignore_errors=True)

    @rule(name=names, step=st.integers(1, 9))
    def computed(self, name: str, step: int) -> None:
        calls: list[int] = []
        entry = compute(self.cache, name, TOTAL, step=step, calls=calls)
        assert is_right(entry, TOTAL)
        assert len(calls) == len(set(calls))
        if name in self.whole:
            assert calls == []
        entry.release()
        self.whole.add(name)

    @rule(name=names, row=st.integers(0, TOTAL - 1), step=st.integers(1, 9))
    def failed(self, name: str, row: int, step: int) -> None:
        def fails(each: int) -> None:
            if each == row:
                raise ZeroDivisionError

        try:
            compute(self.cache, name, TOTAL, step=step, before=fails)
        except ZeroDivisionError:
            assert name not in self.whole
            assert self.cache.find(name) is None
        else:
            self.whole.add(name)

    @rule(name=names)
    def forced(self, name: str) -> None:
        calls: list[int] = []
        compute(self.cache, name, TOTAL, calls=calls, fresh=True).release()
        assert calls == list(range(TOTAL))
        self.whole.add(name)

    @rule(name=names, choice=st.integers(0, 999), at=st.integers(0, 10**6))
    def damaged(self, name: str, choice: int, at: int) -> None:
        found = sorted(Path(self.cache.entry_folder(name)).glob("*.arrow"))
        if found:
            path = found[choice % len(found)]
            data = bytearray(path.read_bytes())
            data[at % len(data)] ^= 1 << choice % 8
            path.write_bytes(data)
            self.whole.discard(name)

    @rule(name=names, choice=st.integers(0, 999), length=st.integers(0, 10**6))
    def cut_or_removed(self, name: str, choice: int, length: int) -> None:
        found = sorted(Path(self.cache.entry_folder(name)).glob("*"))
        if found:
            path = found[choice % len(found)]
            if choice % 2:
                path.unlink()
            else:
                path.write_bytes(path.read_bytes()[: length % path.stat().st_size])
            self.whole.discard(name)

    @rule(name=names)
    def evicted(self, name: str) -> None:
        evict(self.cache, name)
        self.whole.discard(name)

    @rule(name=names)
    def mended(self, name: str) -> None:
        if Path(self.cache.entry_folder(name)).exists():
            found = verify(self.cache, name, fix=True)
            assert found.state in ("ok", "dropped", "unfinished")
            assert (found.state == "ok") >= (name in self.whole)

    @rule()
    def moved(self) -> None:
        self.number += 1
        place = self.base / str(self.number)
        if self.cache.folder.exists():
            self.cache.folder.rename(place)
        self.cache = TransformCache(place)

    @invariant()
    def what_is_found_is_right(self) -> None:
        for name in NAMES if hasattr(self, "cache") else ():
            entry = self.cache.find(name)
            assert entry is None or is_right(entry, TOTAL)
            assert entry is not None or name not in self.whole


TestAnything = Anything.TestCase
TestAnything.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
