"""``python -m provender.nlp.create_finetuning_data``: the published script's name and flags.

Runs ``provender nlp create-finetuning-data``; see `provender.nlp.absl_flags`.
"""

from __future__ import annotations

from provender.nlp import absl_flags
from provender.nlp.finetuning.options import Options

if __name__ == "__main__":
    absl_flags.run("create-finetuning-data", Options)
