"""Run by the Python of the published package's environment: runs its script for each case.

Usage: python peer_program.py CASES.json

CASES.json is a list of lists of flags.
"""

import json
import sys


def main():
    from absl import flags
    from official.nlp.data import create_finetuning_data

    values = flags.FLAGS
    values(["x"], known_only=True)
    with open(sys.argv[1]) as file:
        cases = json.load(file)
    for case in cases:
        for name in list(values):
            values[name].unparse()
        values(["x", *case])
        create_finetuning_data.main(None)


if __name__ == "__main__":
    main()
