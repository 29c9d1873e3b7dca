"""Run by the Python of the published package's environment: writes what its loaders yield.

Usage: python peer_program.py CASES.json OUT_FOLDER

CASES.json is a list of {name, module, config, loader, options, batches}. Each case gives
OUT_FOLDER/<name>.npz with an array for each output of each batch, named <batch>/<output>.
"""

import importlib
import json
import sys


def outputs(batch):
    """Name -> array of a batch: a dict, or a pair of inputs (x.) and targets (y, or y.)."""
    import numpy as np

    if isinstance(batch, dict):
        return {key: np.asarray(value) for key, value in batch.items()}
    inputs, targets = batch
    found = {f"x.{key}": np.asarray(value) for key, value in inputs.items()}
    if isinstance(targets, dict):
        return {**found, **{f"y.{key}": np.asarray(value) for key, value in targets.items()}}
    return {**found, "y": np.asarray(targets)}


def main():
    cases, folder = sys.argv[1:]
    import numpy as np

    with open(cases) as file:
        listed = json.load(file)
    for case in listed:
        module = importlib.import_module(f"official.nlp.data.{case['module']}")
        params = getattr(module, case["config"])(**case["options"])
        data = getattr(module, case["loader"])(params).load()
        found = {}
        for index, batch in enumerate(data.take(case["batches"])):
            found.update({f"{index}/{key}": value for key, value in outputs(batch).items()})
        np.savez(f"{folder}/{case['name']}.npz", **found)


if __name__ == "__main__":
    main()
