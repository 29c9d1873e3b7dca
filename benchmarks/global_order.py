"""What an exact global order costs: reading by number beside tf.data's shuffle buffer.

Records of 1 KB in 8 files in the page cache, batches of 512; CPU microseconds a record of this
process, median of the rounds. A shuffle buffer of 10,000 records is the peer; reading in file order
is the floor. The index of the files is made once and shown apart.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BATCH = 512


def write(folder: Path, records: int) -> list[str]:
    """Files of incompressible records."""
    import numpy as np

    from provender.records.tfrecord import frame_joined

    rng = np.random.default_rng(0)
    files = []
    for number in range(8):
        path = folder / f"part-{number}.tfrecord"
        body = [rng.bytes(1000) for _ in range(records // 8)]
        path.write_bytes(frame_joined(body)[0])
        files.append(str(path))
    return files


def cost(make: Callable[[], Any], records: int, rounds: int) -> tuple[float, float]:
    """Microseconds of CPU and of wall time a record, medians."""
    cpus, walls = [], []
    for _ in range(rounds):
        data = make().batch(BATCH).prefetch(2)
        cpu, wall, read = time.process_time(), time.perf_counter(), 0
        for batch in data:
            read += int(batch.shape[0])
            if read >= records:
                break
        cpus.append((time.process_time() - cpu) / read * 1e6)
        walls.append((time.perf_counter() - wall) / read * 1e6)
    return statistics.median(cpus), statistics.median(walls)


def main() -> None:
    """Writes the files, reads them each way, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=160_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    import tensorflow as tf

    from provender.nlp.order import Input, indexed_source
    from provender.nlp.order.indexing import scan
    from provender.settings import load_settings

    with tempfile.TemporaryDirectory() as home:
        files = write(Path(home), args.records)
        settings = load_settings(cwd=home, environ={"PROVENDER_HOME": home})
        start = time.process_time()
        for each in files:
            scan(Path(each))
        index = (time.process_time() - start) / args.records * 1e6

        def ours(hosts: int) -> Callable[[], Any]:
            source = indexed_source(
                Input(files=files), global_batch_size=BATCH * hosts, seed=1, settings=settings
            )
            return lambda: source.dataset(0, hosts)

        readers = {
            "provender, global order": ours(1),
            "provender, one host of 8": ours(8),
            "TFRecordDataset.shuffle(10_000)": lambda: tf.data.TFRecordDataset(files).shuffle(
                10_000
            ),
            "TFRecordDataset": lambda: tf.data.TFRecordDataset(files),
        }
        costs = {name: cost(make, args.records, args.rounds) for name, make in readers.items()}
    print(f"{args.records:,} records of 1 KB, batches of {BATCH}; index: {index:.2f} us a record")
    print(f"{'':34}{'us CPU/record':>14}{'records/CPU s':>15}{'us wall/record':>16}")
    for name, (cpu, wall) in costs.items():
        print(f"{name:34}{cpu:14.2f}{1e6 / cpu:15,.0f}{wall:16.2f}")


if __name__ == "__main__":
    main()
