"""A server of the tf.data service, or a host that trains in step with others; run as a program.

``serve`` runs a dispatcher and two workers, and prints the address of the dispatcher. ``host CONFIGS ID HOSTS REPLICAS`` waits for a line with the name of one of its
configs, takes a step of it and prints the lengths of its replicas' batches, again and again.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def serve() -> None:
    import tensorflow as tf

    service = tf.data.experimental.service
    server = service.DispatchServer()
    config = service.WorkerConfig(dispatcher_address=server.target.split("://")[1])
    workers = [service.WorkerServer(config) for _ in range(2)]
    print(server.target, flush=True)
    sys.stdin.readline()
    del workers


def host(configs: str, number: int, hosts: int, replicas: int) -> None:
    import tensorflow as tf

    from provender.nlp.dynamic import BertPretrainDynamicDataConfig
    from provender.nlp.registry import get_data_loader

    context = tf.distribute.InputContext(hosts, number, hosts * replicas)
    data = {
        name: get_data_loader(BertPretrainDynamicDataConfig(**config)).load(context)
        for name, config in json.loads(configs).items()
    }
    print("ready", flush=True)
    iterators: dict[str, Any] = {}
    for line in sys.stdin:
        name = line.strip()
        batches = iterators[name] if name in iterators else iter(data[name])
        iterators[name] = batches
        shapes = [next(batches)["input_word_ids"].shape[1] for _ in range(replicas)]
        print(json.dumps(shapes), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        host(sys.argv[2], *(int(each) for each in sys.argv[3:]))
