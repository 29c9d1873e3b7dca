"""`filter`: only the rows for which a function says yes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from provender.data.errors import TransformError
from provender.data.stream.block import Block
from provender.data.stream.calls import Call, all_awaited, awaited, noted, wrong_return
from provender.data.stream.flow import Flow, Reader, State, plus
from provender.data.stream.node import Node, Run, Unary, start

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, eq=False)
class Filter(Unary):
    """Rows for which a function is true; of batches it is asked for a list."""

    name: ClassVar[str] = "filter"

    call: Call = None  # type: ignore[assignment]
    batch_size: int | None = None
    from_blocks: bool = False

    def parameters(self) -> Any:
        return (*self.call.parameters(), self.batch_size)

    def num_parts(self) -> int:
        return self.child.num_parts() if self._divides else 1

    @property
    def _divides(self) -> bool:
        if not self.call.with_indices:
            return True
        return self.batch_size is None and self.child.counted

    def pick(self, parts: Sequence[int]) -> Node:
        if not self._divides:
            return super(Unary, self).pick(parts)
        if self.call.with_indices:
            return replace(self, child=self.child.numbered().pick(parts), from_blocks=True)
        return super().pick(parts)

    def permuted(self, key: int) -> Node:
        return super().permuted(key) if not self.call.with_indices else self

    def mixed(self, parts: int, run: int) -> Node:
        return super().mixed(parts, run) if not self.call.with_indices else self

    def balanced(self, count: int, index: int, pad: bool = False) -> Node | None:
        if not self._divides or pad:
            return None
        child = self.child.numbered() if self.call.with_indices else self.child
        share = child.balanced(count, index)
        if share is None:
            return None
        return replace(self, child=share, from_blocks=self.call.with_indices)

    def refined(self, count: int) -> Node | None:
        return super().refined(count) if self._divides else None

    def open(self, run: Run, state: State) -> Flow:
        counts = self.call.with_indices and not self.from_blocks
        at = int(state["i"]) if counts and state is not None else 0
        below = None if state is None else state["up"]
        return FilterFlow(self, start(self.child, run, below), at, counts)


class FilterFlow(Flow):
    """Running `Filter`; its state is the place below, and the row number where rows are counted."""

    def __init__(self, node: Filter, child: Flow, at: int, counts: bool) -> None:
        self._node = node
        self._child = child
        self._reader = Reader(child) if node.batch_size is not None else None
        self._at = at
        self._counts = counts
        self._shaper = node.call.shaper()
        self._error: BaseException | None = None
        self._place: State = None
        self.exact = self._reader is None

    def _input(self, limit: int | None) -> tuple[State, Block | None]:
        size = self._node.batch_size
        if self._reader is None:
            before = self._child.state()
            return before, self._child.pull(limit)
        have = self._reader.ensure(1 << 62 if size is None or size <= 0 else size)
        before = self._reader.state()
        if size is not None and size > 0:
            have = min(have, size)
        return before, self._reader.block(have) if have else None

    def _next(self, limit: int | None) -> Block | None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        while True:
            before, block = self._input(limit)
            if block is None:
                return None
            chosen, asked = self._chosen(block, before)
            self._at += asked
            kept = block.select(chosen) if len(chosen) < block.count else block
            if kept.count:
                return kept
            if self._error is not None:
                error, self._error = self._error, None
                raise error

    def _chosen(self, block: Block, before: State) -> tuple[np.ndarray, int]:
        """Positions of the rows that stay, and how many rows were asked about."""
        import numpy as np

        node, at = self._node, self._at
        numbers: Any = None
        if node.call.with_indices:
            numbers = (
                np.arange(at, at + block.count)
                if block.numbers is None or self._counts
                else block.numbers
            ).tolist()
        if self._reader is not None:
            return np.flatnonzero(self._mask(block, numbers)), block.count
        answers: list[Any] = []
        rows = self._shaper.rows(block, at)
        try:
            simple = node.call.simple()
            if simple is not None:
                for row in rows:
                    answers.append(simple(row))  # noqa: PERF401 - the rows before an error count
            else:
                for place, row in enumerate(rows):
                    answers.append(node.call(row, numbers[place] if numbers else None))
        except Exception as error:  # noqa: BLE001 - the user's, raised after the rows before it
            broken: Exception | None = error
        else:
            broken = None
        answers, failed = all_awaited(answers)
        broken = failed or broken
        if broken is not None:
            noted(broken, "filter", node.call.title, at + len(answers))
            self._fail(broken, before, len(answers))
        try:
            mask = np.fromiter(map(bool, answers), bool, len(answers))
        except (TypeError, ValueError) as error:
            raise TransformError(
                f"{node.call.title} returned what is neither true nor false: {error}",
                where=f"filter, near row {at}",
                hint="Return True or False; for batches add batched=True and return a list.",
            ) from error
        return np.flatnonzero(mask), len(answers)

    def _fail(self, error: BaseException, before: State, rows: int) -> None:
        """Rows before the one that failed are given first."""
        below = plus(before, rows)
        self._error = error
        self._place = self._placed(self._at + rows, below)

    def _mask(self, block: Block, numbers: Any) -> np.ndarray:
        import numpy as np

        node = self._node
        given = self._shaper.batch(block, self._at)
        try:
            answer = awaited(node.call(given, numbers))
        except Exception as error:
            noted(error, "filter", node.call.title, self._at, block.count)
            raise
        try:
            mask = np.asarray(answer, bool)
        except (TypeError, ValueError):
            mask = np.zeros(0, bool)
        if answer is None or mask.ndim != 1:
            hint = "Return a list with True or False for every row of the batch."
            raise wrong_return("filter", node.call.title, self._at, answer, hint)
        if len(mask) != block.count:
            raise TransformError(
                f"{node.call.title} returned {len(mask):,} answers for {block.count:,} rows.",
                where=f"filter, batch at row {self._at}",
                hint="Return one True or False for every row of the batch.",
                facts={"row": self._at, "answers": len(mask), "rows": block.count},
            )
        return mask

    def _state(self) -> State:
        if self._error is not None:
            return self._place
        below = self._child.state() if self._reader is None else self._reader.state()
        return self._placed(self._at, below)

    def _placed(self, at: int, below: State) -> State:
        return {"i": at, "up": below} if self._counts else {"up": below}

    def close(self) -> None:
        self._child.close()
