"""Reading ahead in a thread, up to so much memory."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from provender.data.stream.block import Block
from provender.data.stream.flow import Flow, State
from provender.data.stream.node import Node, Run, Unary, start
from provender.data.stream.pace import Pace

_CLOSING = 0.15


@dataclass(frozen=True, eq=False)
class Prefetch(Unary):
    """The same rows, made ahead by a thread.

    Attributes:
        memory: bytes that may wait to be taken; one block is made however large it is.
    """

    name: ClassVar[str] = "prefetch"

    memory: int = 64 << 20

    @property
    def wraps(self) -> bool:
        return False

    def column_names(self) -> list[str] | None:
        return self.child.column_names()

    def rows(self) -> int | None:
        return self.child.rows()

    def balanced(self, count: int, index: int, pad: bool = False) -> Node | None:
        share = self.child.balanced(count, index, pad)
        return None if share is None else self.over(share)

    @property
    def counted(self) -> bool:
        return self.child.counted

    def numbered(self) -> Node:
        return self.over(self.child.numbered())

    def pick(self, parts: Sequence[int]) -> Node:
        return self.over(self.child.pick(parts))

    def open(self, run: Run, state: State) -> Flow:
        return PrefetchFlow(start(self.child, run, state), self.memory)


class PrefetchFlow(Flow):
    """Running `Prefetch`; its state is the place below after the last block that was taken."""

    def __init__(self, child: Flow, memory: int) -> None:
        self._child = child
        self._memory = memory
        self._place = child.state()
        self._changed = threading.Condition()
        self._ready: deque[tuple[Any, State, int]] = deque()
        self._waiting = 0
        self._stopped = False
        self._thread: threading.Thread | None = None

    def _work(self) -> None:
        pace = Pace()
        while True:
            try:
                block: Any = self._child.pull(pace.start())
                pace.stop(0 if block is None else block.count)
            except BaseException as error:  # noqa: BLE001 - raised again where it is read
                block = error
            size = size_of(block) if isinstance(block, Block) else 0
            place = self._child.state()
            with self._changed:
                while self._ready and self._waiting + size > self._memory and not self._stopped:
                    self._changed.wait()
                if self._stopped:
                    break
                self._ready.append((block, place, size))
                self._waiting += size
                self._changed.notify_all()
            if not isinstance(block, Block):
                return
        self._child.close()

    def _next(self, limit: int | None) -> Block | None:
        del limit
        if self._thread is None:
            if self._stopped:
                return None
            self._thread = threading.Thread(
                target=self._work, name="provender-prefetch", daemon=True
            )
            self._thread.start()
        with self._changed:
            while not self._ready and not self._stopped:
                self._changed.wait()
            if self._stopped:
                return None
            block, place, size = self._ready[0]
            if not isinstance(block, Block):
                if block is not None:
                    raise block
                return None
            self._ready.popleft()
            self._waiting -= size
            self._place = place
            self._changed.notify_all()
        return block

    def _advance(self, rows: int) -> int:
        if self._thread is not None:
            return super()._advance(rows)
        done = self._child.advance(rows)
        self._place = self._child.state()
        return done

    def _state(self) -> State:
        return self._place

    def close(self) -> None:
        with self._changed:
            self._stopped = True
            self._ready.clear()
            self._changed.notify_all()
        if self._thread is None:
            self._child.close()
        elif self._thread is not threading.current_thread():
            # A call that is under way (a slow function) ends in its own time, in the thread.
            self._thread.join(_CLOSING)


def size_of(block: Block) -> int:
    """Bytes that a block takes, roughly: for Python rows, as many times that of the first."""
    if block.table is not None:
        return int(block.table.nbytes)
    if block.rows is not None:
        return block.count * _size(block.rows[0]) if block.count else 0
    return sum(_size(values) for values in (block.columns or {}).values())


def _size(value: Any, depth: int = 0) -> int:
    own = getattr(value, "nbytes", None)
    if isinstance(own, int):
        return own
    if isinstance(value, dict) and depth < 4:
        return sys.getsizeof(value) + sum(_size(each, depth + 1) for each in value.values())
    if isinstance(value, list | tuple) and value and depth < 4:
        return sys.getsizeof(value) + len(value) * _size(value[0], depth + 1)
    return sys.getsizeof(value)
