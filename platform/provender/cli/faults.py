"""Errors as people and programs read them, and the exit code of each."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.cli.tables import clean
from provender.errors import BuilderError, ProvenderError

if TYPE_CHECKING:
    from provender.cli.invocation import Invocation

INTERRUPTED = 130
BROKEN_PIPE = 141
UNEXPECTED = 1

_FRAME = re.compile(
    r'^ *File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<name>[^\n]+)\n'
    r"(?P<code>(?: {4,}(?!File \")[^\n]*\n)*)",
    re.MULTILINE,
)
_LOG_LINES = 5
_WIDTH = 100


def guarded(call: Invocation, work: Callable[[], int | None]) -> int:
    """Runs a command; whatever goes wrong is told once, in the form that was asked for.

    Args:
        call: the invocation.
        work: the command.

    Returns:
        The exit code: that of the error (`provender.errors`), 130 after an interrupt, 141 where
        nobody reads standard output any more, 1 for what nobody foresaw.
    """
    try:
        with call.out.guarded():
            return _told(call, work)
    except BrokenPipeError:
        # The interpreter flushes standard output once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE


def _told(call: Invocation, work: Callable[[], int | None]) -> int:
    try:
        call.check()
        return work() or 0
    except ProvenderError as error:
        _tell(call, error)
        return error.exit_code
    except KeyboardInterrupt:
        kept = " Finished pieces are kept: the same command goes on from them."
        _say(f"\nInterrupted.{kept if call.resumes else ''}", "33")
        if call.json:
            call.out.document({"error": {"type": "KeyboardInterrupt", "message": "Interrupted."}})
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the last place where it can be told
        _tell_unexpected(call, error)
        return UNEXPECTED


def _tell(call: Invocation, error: ProvenderError) -> None:
    if call.json:
        call.out.document({"error": error.to_json()})
        return
    _say(f"error: {error.message}", "31")
    _labelled("where: ", error.where)
    for line in user_frame(error):
        _say(f"  {line}")
    _labelled("next:  ", error.hint)
    log = error.facts.get("log") or []
    for line in log if call.verbose else log[-_LOG_LINES:]:
        _say(f"  | {line}", "2")
    if call.verbose and (text := traceback_text(error)):
        _say(text.rstrip(), "2")


def _tell_unexpected(call: Invocation, error: Exception) -> None:
    message = f"{type(error).__name__}: {error}"
    hint = "This is a fault in Provender or in a library. --verbose shows where."
    if call.json:
        doc = {"type": type(error).__name__, "message": str(error), "where": None, "hint": hint}
        facts = {"traceback": _formatted(error)}
        call.out.document({"error": {**doc, "facts": facts if call.verbose else {}}})
        return
    _say(f"error: {' '.join(message.split())}", "31")
    if call.verbose:
        _say(_formatted(error).rstrip(), "2")
    else:
        _labelled("next:  ", hint)


def _labelled(label: str, text: str | None) -> None:
    if not text:
        return
    width = max(40, _WIDTH - len(label))
    lines: list[str] = []
    for line in text.splitlines():
        lines += textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""]
    for i, line in enumerate(lines):
        _say(f"  {label if i == 0 else ' ' * len(label)}{line}")


def _say(text: str, colour: str = "") -> None:
    coloured = colour and sys.stderr.isatty() and "NO_COLOR" not in os.environ
    lines = [clean(line) for line in text.split("\n")]
    body = "\n".join(lines)
    sys.stderr.write(f"\x1b[{colour}m{body}\x1b[0m\n" if coloured else f"{body}\n")
    sys.stderr.flush()


def traceback_text(error: ProvenderError) -> str:
    """The traceback of what user code or a library raised; empty where there is none."""
    if isinstance(error.facts.get("traceback"), str):
        return str(error.facts["traceback"])
    return _formatted(error.__cause__) if error.__cause__ else ""


def _formatted(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(error))


def user_frame(error: ProvenderError) -> list[str]:
    """Where in the user's own code a builder broke, as lines; empty for other errors.

    Args:
        error: any error; only a `BuilderError` with a traceback has such a place.
    """
    if not isinstance(error, BuilderError):
        return []
    frames = list(_FRAME.finditer(traceback_text(error)))
    if not frames:
        return []
    frame = next((each for each in reversed(frames) if _is_user(each["file"])), None)
    if frame is None:
        return []
    # A line of ^^^^ under the code would be misplaced once the indentation is gone.
    code = [line.strip() for line in frame["code"].splitlines() if line.strip(" ^~")]
    place = f"{frame['file']}:{frame['line']}, in {frame['name']}"
    return [f"in:    {place}", *(f"       {line}" for line in code)]


def _is_user(file: str) -> bool:
    if file.startswith("<"):
        return False
    package = Path(__file__).resolve().parents[1]
    path = Path(file)
    if package in path.parents:
        return package / "builders" == path.parent
    library: Any = os.__file__
    return "site-packages" not in path.parts and Path(library).parent not in path.parents
