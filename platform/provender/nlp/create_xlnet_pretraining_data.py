"""``python -m provender.nlp.create_xlnet_pretraining_data``: the published script's name and flags.

Runs ``provender nlp create-xlnet-pretraining-data``; see `provender.nlp.absl_flags`.
"""

from __future__ import annotations

from provender.nlp import absl_flags
from provender.nlp.xlnet_data.options import Options

if __name__ == "__main__":
    absl_flags.run("create-xlnet-pretraining-data", Options)
