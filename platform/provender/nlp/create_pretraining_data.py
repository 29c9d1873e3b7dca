"""``python -m provender.nlp.create_pretraining_data``: the published script's name and flags.

Takes flags as absl does (``--do_lower_case=False``, ``--nodo_lower_case``, ``-input_file x``) and runs
``provender nlp create-pretraining-data`` with them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields

from provender.errors import SettingsError
from provender.nlp.pretraining.options import Options

_TRUE = ("true", "t", "1", "yes", "y")
_FALSE = ("false", "f", "0", "no", "n")


def translated(args: Sequence[str]) -> list[str]:
    """Arguments in absl's forms as the command line takes them.

    Args:
        args: without the program's name.

    Raises:
        SettingsError: a value of a yes-or-no flag is neither.
    """
    switches = {each.name for each in fields(Options) if isinstance(each.default, bool)}
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


if __name__ == "__main__":
    # The command line is above this layer; this module is a way into it, not a user of it.
    from importlib import import_module

    try:
        _args = translated(sys.argv[1:])
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
    sys.argv[1:] = ["nlp", "create-pretraining-data", *_args]
    import_module("provender.cli").main()
