"""Plain text: each line a row, each paragraph, or each file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from provender.data.sources.line_bytes import Block, Part
from provender.data.sources.lines import LineSource
from provender.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from provender.data.features import Features

SampleBy = Literal["line", "paragraph", "document"]
COLUMN = "text"
_END = re.compile(rb"\r\n|\r|\n")
_RUN = re.compile(rb"(?:\r\n|\r|\n){2,}(?=[^\r\n])")


class TextSource(LineSource):
    """Text files as rows of one column ``text``.

    Args:
        sample_by: what a row is: a line, a paragraph (ended by an empty line) or a whole file.
        keep_linebreaks: leave the line feed at the end of each line.
        **kwargs: as for `LineSource`.

    ``\\n``, ``\\r\\n`` and ``\\r`` all end a line; a row shows them as ``\\n``.
    """

    kind = "text"

    def __init__(
        self,
        files: Any,
        *,
        sample_by: SampleBy = "line",
        keep_linebreaks: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(files, **kwargs)
        if sample_by not in ("line", "paragraph", "document"):
            raise InputError(
                f"Text cannot be cut by {sample_by!r}.",
                where="sample_by",
                hint="Use line, paragraph or document.",
            )
        self._by = sample_by
        self._keep = keep_linebreaks
        self.can_reshard = sample_by == "line"
        self._local_ends = sample_by != "paragraph"
        if self._given is not None and len(self._given) != 1:
            raise InputError(
                f"Text has one column, not {len(self._given)}.",
                where="features",
                hint='Use Features({"text": Value("string")}).',
            )

    def _parameters(self) -> Any:
        return (self._by, self._keep)

    def _infer(self) -> Features:
        from provender.data.features import Features, Value

        return Features({COLUMN: Value("string")})

    def _last_end(self, data: bytes) -> int:
        if self._by == "line":
            return super()._last_end(data)
        if self._by == "document":
            return -1
        # Behind the last run of line ends that is all there. They end paragraphs two by two, and
        # one that is over begins the next paragraph.
        runs = list(_RUN.finditer(data))
        if not runs:
            return -1
        last = runs[-1]
        ends = [each.end() for each in _END.finditer(last[0])]
        return last.start() + ends[len(ends) // 2 * 2 - 1] - 1

    def _parse(self, part: Part, block: Block, at: int, schema: Any) -> pa.Table:
        import pyarrow as pa

        text = self.utf8(part, block)
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        name = next(iter(self._given)) if self._given is not None else COLUMN
        table = pa.table({name: pa.array(self._texts(text), pa.string())})
        if self._given is None:
            return table
        from provender.data.features import cast_table

        return cast_table(table, self._given)

    def _texts(self, text: str) -> Any:
        if self._by == "document":
            return [text]
        if self._by == "paragraph":
            return list(_paragraphs(text))
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        elif self._keep:
            return [f"{line}\n" for line in lines[:-1]] + lines[-1:]
        return [f"{line}\n" for line in lines] if self._keep else lines

    def _count(self, block: Block) -> int | None:
        if self._by == "document":
            return 1
        if self._by == "paragraph":
            return None
        data = block.data
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data.count(b"\n") + (0 if data.endswith(b"\n") or not data else 1)


def _paragraphs(text: str) -> Iterator[str]:
    for each in text.split("\n\n"):
        if each:
            yield each
