"""Command lines in absl's forms (``--do_lower_case=False``, ``--nodo_lower_case``, ``-input_file x``,
``--flagfile=FILE``) as ours.

The scripts of TF-NLP take such flags; ``python -m provender.nlp.create_…`` takes them, too, and runs the
command of ``provender nlp`` that makes the same.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path

from provender.errors import MissingFiles, ProvenderError, SettingsError
from provender.records.atomic import told_as_ours

_TRUE = ("true", "t", "1", "yes", "y")
_FALSE = ("false", "f", "0", "no", "n")
_HELP = ("--helpfull", "--helpshort", "-helpfull", "-helpshort")
_NUMBER = re.compile(r"-\d+(\.\d*)?(e[-+]?\d+)?", re.I)
"""A value, as in ``--random_seed -12``."""


def switches_of(options: type) -> set[str]:
    """The yes-or-no flags of a dataclass of options."""
    return {each.name for each in fields(options) if isinstance(each.default, bool)}


def translated(args: Sequence[str], switches: Collection[str]) -> list[str]:
    """Arguments in absl's forms as the command line takes them.

    Args:
        args: without the program's name.
        switches: names of the yes-or-no flags.

    Raises:
        SettingsError: a value of a yes-or-no flag is neither, or files of flags name each other.
        MissingFiles: there is no such file of flags.
    """
    found = []
    for each in _expanded(args, ()):
        name, equals, value = each.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if not each.startswith("-") or len(each.lstrip("-")) < 2 or _NUMBER.fullmatch(each):
            found.append(each)
        elif each in _HELP:
            found.append("--help")
        elif name in switches or (name.removeprefix("no") in switches and not equals):
            on = name in switches
            if equals and value.lower() not in _TRUE + _FALSE:
                raise SettingsError(f"--{name} is true or false, got {value!r}.", where=f"--{name}")
            on = on and (not equals or value.lower() in _TRUE)
            name = name if name in switches else name.removeprefix("no")
            found.append(f"--{'' if on else 'no-'}{name.replace('_', '-')}")
        else:
            found.append(f"--{name.replace('_', '-')}{equals}{value}")
    return found


def _expanded(args: Sequence[str], inside: tuple[Path, ...]) -> list[str]:
    """Arguments with what ``--flagfile`` names in its place: a flag a line, # and // begin remarks."""
    found: list[str] = []
    rest = iter(args)
    for each in rest:
        name, equals, value = each.partition("=")
        if name.lstrip("-") != "flagfile" or not name.startswith("-"):
            found.append(each)
            continue
        file = Path(value if equals else next(rest, ""))
        if file in inside:
            raise SettingsError(f"{file} names itself by --flagfile.", where=str(file))
        if not file.is_file():
            raise MissingFiles(f"There is no file of flags {file}.", where="--flagfile")
        with told_as_ours(file):
            lines = [each.strip() for each in file.read_text("utf-8").splitlines()]
        flags = [each for each in lines if each and not each.startswith(("#", "//"))]
        found += _expanded(flags, (*inside, file))
    return found


def run(command: str, options: type) -> None:
    """Runs a command of ``provender nlp`` with this process's arguments.

    Args:
        command: its name.
        options: its dataclass of options.
    """
    try:
        args = translated(sys.argv[1:], switches_of(options))
    except ProvenderError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
    sys.argv[1:] = ["nlp", command, *args]
    # The command line is above this layer; these modules are ways into it, not users of it.
    import_module("provender.cli").main()
