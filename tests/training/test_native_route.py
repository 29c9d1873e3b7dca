"""TensorFlow's own ``gs://``, as TPU workers read it, led to a test server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.training.tensorflow_gcs import redirected

PROGRAM = """
import json, sys
import provender

settings = provender.load_settings(store=sys.argv[1], catalog=sys.argv[2])
data = provender.load(
    "notes:1.0.0", split="train[100:]+test", batch_size=64, columns=["label"], route="native",
    settings=settings,
)
print(json.dumps([int(label) for batch in data for label in batch["label"]]))
"""


def test_tensorflow_reads_the_shards_itself(
    notes: Any, gcs_server: Any, gcs_bucket: str, tmp_path: Path
) -> None:
    from provender.store import Store
    from provender.training import pull

    pull(notes.store, notes.version, f"{gcs_bucket}/datasets")
    assert Store.open(gcs_bucket).stat(f"{notes.version.path}/dataset_info.json")
    with redirected(gcs_server.endpoint, tmp_path) as (environment, requests):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, gcs_bucket, notes.settings.catalog],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=200,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    labels = json.loads(done.stdout.splitlines()[-1])
    directory = notes.store.path(notes.version.path)
    import tensorflow_datasets as tfds

    expected = tfds.builder_from_directory(directory).as_dataset(
        split="train[100:]+test", read_config=tfds.ReadConfig(interleave_cycle_length=1)
    )
    assert labels == [int(each["label"]) for each in expected]
    assert any("tfrecord" in each for each in requests)
