"""Killed at any point, publishing shows nothing or everything, and goes on when run again."""

from __future__ import annotations

import os
import random
import signal
import time

from provender.store import Store, publish_directory

CONTENT = {
    "x-train.tfrecord-00000-of-00001": b"0" * 1000,
    ".provender/index/train 0": b"index",
    "dataset_info.json": b'{"name": "x"}',
}
TARGET = "datasets/x/1.0.0"


def prepare(store: Store) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {}
    for i, (name, data) in enumerate(CONTENT.items()):
        if name.startswith("x-train"):
            store.write(f"building/abc/{i}", data)
            files[name] = f"building/abc/{i}"
        else:
            files[name] = data
    return files


def visible(store: Store, folder: str = TARGET) -> dict[str, bytes]:
    return {
        entry.rel.removeprefix(f"{folder}/"): store.read(entry.rel)
        for entry in store.list(folder, recursive=True)
    }


def test_local_at_every_system_call(local_store, processes):
    files = prepare(local_store)
    code, point = -signal.SIGKILL, 0
    while code == -signal.SIGKILL:

        def publish_and_die(point: int = point) -> None:
            processes.die_at_event(point)
            publish_directory(local_store, files, TARGET)

        code = processes.wait(processes.fork(publish_and_die))
        seen = visible(local_store)
        assert seen in ({}, CONTENT), f"killed at event {point}"
        assert publish_directory(local_store, files, TARGET).created == (not seen)
        assert visible(local_store) == CONTENT
        local_store.remove_tree("datasets")
        point += 1
    assert code == 0
    assert point > 30, "too few points of death to mean much"
    assert local_store.sweep(3600) == 0
    assert local_store.sweep(0) > 0
    assert os.listdir(f"{local_store.path()}/.incoming") == []


def test_local_at_random_moments(local_store, processes):
    files = prepare(local_store)
    chance = random.Random(7)
    for _ in range(15):
        pid = processes.fork(lambda: publish_directory(local_store, files, TARGET))
        time.sleep(chance.uniform(0, 0.012))
        os.kill(pid, signal.SIGKILL)
        processes.wait(pid)
        assert visible(local_store) in ({}, CONTENT)
        publish_directory(local_store, files, TARGET)
        assert visible(local_store) == CONTENT
        local_store.remove_tree("datasets")


def test_gcs_at_every_request(proxied, processes):
    proxy, store = proxied
    files = prepare(store)
    code, point = -signal.SIGKILL, 0
    while code == -signal.SIGKILL:
        doomed: list[int] = []
        countdown = [point]

        def kill(_: str, doomed: list[int] = doomed, countdown: list[int] = countdown) -> None:
            with proxy.lock:
                countdown[0] -= 1
                if countdown[0] == -1:
                    while not doomed:
                        time.sleep(0.001)
                    os.kill(doomed[0], signal.SIGKILL)

        proxy.before = kill
        doomed.append(processes.fork(lambda: publish_directory(store, files, TARGET)))
        code = processes.wait(doomed[0])
        proxy.settle()
        proxy.before = None
        seen = visible(store)
        if "dataset_info.json" in seen:
            assert seen == CONTENT
        done = publish_directory(store, files, TARGET)
        assert done.created == ("dataset_info.json" not in seen)
        assert visible(store) == CONTENT
        store.remove_tree("datasets")
        point += 1
    assert code == 0
    assert point >= 8, "too few points of death to mean much"


def test_gcs_goes_on_where_it_stopped(proxied):
    proxy, store = proxied
    files = prepare(store)
    first = publish_directory(store, files, TARGET)
    store.remove(f"{TARGET}/dataset_info.json")
    store.write(f"{TARGET}/of an attempt with other files", b"")
    proxy.log.clear()
    again = publish_directory(store, files, TARGET)
    assert again.created
    assert not [line for line in proxy.log if "rewriteTo" in line], "finished copies are kept"
    assert visible(store) == CONTENT
    marker = {"dataset_info.json": again.identities["dataset_info.json"]}
    assert again.identities == {**first.identities, **marker}
