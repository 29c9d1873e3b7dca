"""Command lines in absl's forms (``--do_lower_case=False``, ``--nodo_lower_case``, ``-input_file x``) as ours.

The scripts of TF-NLP take such flags; ``python -m provender.nlp.create_…`` takes them, too, and runs the
command of ``provender nlp`` that makes the same.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import fields
from importlib import import_module

from provender.errors import SettingsError

_TRUE = ("true", "t", "1", "yes", "y")
_FALSE = ("false", "f", "0", "no", "n")


def switches_of(options: type) -> set[str]:
    """The yes-or-no flags of a dataclass of options."""
    return {each.name for each in fields(options) if isinstance(each.default, bool)}


def translated(args: Sequence[str], switches: Collection[str]) -> list[str]:
    """Arguments in absl's forms as the command line takes them.

    Args:
        args: without the program's name.
        switches: names of the yes-or-no flags.

    Raises:
        SettingsError: a value of a yes-or-no flag is neither.
    """
    found = []
    for each in args:
        name, equals, value = each.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if not each.startswith("-") or len(each.lstrip("-")) < 2:
            found.append(each)
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


def run(command: str, options: type) -> None:
    """Runs a command of ``provender nlp`` with this process's arguments.

    Args:
        command: its name.
        options: its dataclass of options.
    """
    try:
        args = translated(sys.argv[1:], switches_of(options))
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
    sys.argv[1:] = ["nlp", command, *args]
    # The command line is above this layer; these modules are ways into it, not users of it.
    import_module("provender.cli").main()
