"""Standard output: text and tables, with colour on a terminal, or one JSON document."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from provender.cli.documents import plain
from provender.cli.tables import Column, clean, plain_lines

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 120
"""Where explanations wrap if nothing says how wide the reader's window is."""


class Output:
    """Where a command's results go.

    Args:
        json: only `document` prints.
        quiet: headings and remarks are left out.
        verbose: details are shown.
    """

    def __init__(self, *, json: bool, quiet: bool, verbose: bool) -> None:
        self.json = json
        self.quiet = quiet
        self.verbose = verbose
        self._out: TextIO | None = None
        self._console: Console | None = None

    @property
    def stream(self) -> TextIO:
        """Standard output, even while `guarded` has turned it away from user code."""
        return self._out or sys.stdout

    @property
    def is_terminal(self) -> bool:
        """Whether a person watches, on a terminal that can move its cursor."""
        return self.stream.isatty() and os.environ.get("TERM") != "dumb" and not self.json

    @property
    def console(self) -> Console:
        """Rich's console on standard output; loads Rich."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(file=self.stream, highlight=False, markup=False, emoji=False)
        return self._console

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Keeps standard output clean under ``--json``.

        What builders, libraries or their C code print meanwhile goes to standard error.
        """
        if not self.json:
            yield
            return
        sys.stdout.flush()
        saved = os.dup(1)
        os.dup2(2, 1)
        self._out = os.fdopen(os.dup(saved), "w", encoding="utf-8")
        try:
            yield
        finally:
            with suppress(BrokenPipeError):
                self._out.close()
            self._out = None
            sys.stdout.flush()
            os.dup2(saved, 1)
            os.close(saved)

    def document(self, value: Any) -> None:
        """Prints the JSON document; records, paths and times are made JSON-ready."""
        self.stream.write(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")
        self.stream.flush()

    def raw(self, text: str) -> None:
        """Prints text that another program reads, as it is."""
        self.stream.write(text + "\n")
        self.stream.flush()

    def aside(self, text: str) -> None:
        """Says something about the result where it cannot be taken for a part of it."""
        if not self.quiet and not self.json:
            sys.stderr.write(clean(text) + "\n")

    def line(self, text: str = "", style: str = "") -> None:
        """Prints text that is part of the result."""
        if self.json:
            return
        if style and self.is_terminal:
            self.console.print(clean(text), style=style, soft_wrap=True)
            return
        self.stream.write(clean(text) + "\n")
        self.stream.flush()

    def remark(self, text: str = "", style: str = "") -> None:
        """Prints text that ``--quiet`` leaves out."""
        if not self.quiet:
            self.line(text, style)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
        """Prints a table: Rich's on a terminal, aligned text elsewhere."""
        if self.json:
            return
        if self.is_terminal:
            from provender.cli.tables import rich_table

            self.console.print(rich_table(columns, rows, heading=not self.quiet))
            return
        width = shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns
        lines = plain_lines(columns, rows, width=width, heading=not self.quiet)
        self.stream.write("".join(f"{line}\n" for line in lines))
        self.stream.flush()

    def pairs(self, values: Iterable[tuple[str, str]]) -> None:
        """Prints named values, one a line, names aligned."""
        known = [(name, value) for name, value in values if value]
        width = max((len(name) for name, _ in known), default=0)
        for name, value in known:
            self.line(f"{name.ljust(width)}  {value}")
