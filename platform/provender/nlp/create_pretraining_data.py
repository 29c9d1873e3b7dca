"""``python -m provender.nlp.create_pretraining_data``: the published script's name and flags.

Takes flags as absl does (``--do_lower_case=False``, ``--nodo_lower_case``, ``-input_file x``) and runs
``provender nlp create-pretraining-data`` with them.
"""

from __future__ import annotations

from collections.abc import Sequence

from provender.nlp import absl_flags
from provender.nlp.pretraining.options import Options


def translated(args: Sequence[str]) -> list[str]:
    """Arguments in absl's forms as the command line takes them; see `absl_flags.translated`."""
    return absl_flags.translated(args, absl_flags.switches_of(Options))


if __name__ == "__main__":
    absl_flags.run("create-pretraining-data", Options)
