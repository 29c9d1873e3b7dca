"""Run by the Python of the published package's environment: what its reader yields.

Usage: python peer_program.py CASES.json OUT.json

CASES.json is a list of {options, pipelines}. OUT.json gets {defaults, cases}: the defaults of the
configuration, and for each case and each input pipeline the numbers of the examples, by batch.
"""

import json
import sys


def main():
    import tensorflow as tf
    from official.core import config_definitions, input_reader

    def decode(record):
        return tf.io.parse_single_example(record, {"number": tf.io.FixedLenFeature([], tf.int64)})

    def read(options, index, count):
        params = config_definitions.DataConfig(**options)
        reader = input_reader.InputReader(
            params, dataset_fn=tf.data.TFRecordDataset, decoder_fn=decode
        )
        context = tf.distribute.InputContext(count, index, count) if count else None
        return [each["number"].numpy().tolist() for each in reader.read(context)]

    with open(sys.argv[1]) as file:
        listed = json.load(file)
    cases = [
        [
            read(case["options"], index, case["pipelines"])
            for index in range(max(case["pipelines"], 1))
        ]
        for case in listed
    ]
    defaults = config_definitions.DataConfig().as_dict()
    with open(sys.argv[2], "w") as file:
        json.dump({"defaults": defaults, "cases": cases}, file)


if __name__ == "__main__":
    main()
