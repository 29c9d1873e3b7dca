"""The worker process of a map, filter or load: rows come in, segments go to the cache."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import traceback
from typing import Any

import pyarrow as pa

from provender.data.dataset.calling import Runner
from provender.data.dataset.engine import Written
from provender.data.dataset.frames import Pipe
from provender.data.dataset.shaping import Shaper
from provender.data.dataset.shards import ShardRunner
from provender.errors import ProvenderError


class _Stop(BaseException):
    """The process that this one works for asks it to end."""


def main(commands: int, answers: int, lifeline: int) -> None:
    """Works until there is nothing more to do.

    Args:
        commands, answers: descriptors of the pipes.
        lifeline: descriptor of a pipe that is closed when the other process is gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(_Stop):
        signal.signal(signal.SIGTERM, _stop)
        threading.Thread(target=_watch, args=(lifeline,), daemon=True).start()
        inbox, outbox = Pipe(commands, "rb"), Pipe(answers, "wb")
        try:
            _work(inbox, outbox)
        except _Stop:
            pass
        except BaseException as error:  # noqa: BLE001 - everything is told to the other process
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            with contextlib.suppress(OSError):
                outbox.send(*_told(error))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdout.flush()
    sys.stderr.flush()


def _stop(*_: Any) -> None:
    raise _Stop


def _watch(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)


def _work(inbox: Pipe, outbox: Pipe) -> None:
    message = inbox.receive()
    if message is None:
        return
    doc, data = message
    from provender.data.cache import SegmentWriter
    from provender.data.dataset.travel import unpack
    from provender.data.features import Features

    call = _loaded(unpack, data)
    features = Features.from_dict(doc["features"])
    given = None if doc["given"] is None else Features.from_dict(doc["given"])
    shaper: Shaper | None = None
    runner: Runner | ShardRunner
    if call.kind == "load":
        runner = ShardRunner(call.function, call.name)
    else:
        if call.kind == "map":
            shaper = Shaper(features, given, fill=not call.batched)
        runner = Runner(call, features, shaper, doc["rank"])
    segments = SegmentWriter.attach(doc["handle"])
    outbox.send({"did": "start"})
    while (message := inbox.receive()) is not None:
        doc, _ = message
        if doc["do"] == "stop":
            return
        if doc["known"] is not None and shaper is not None and given is None:
            shaper.features = Features.from_dict(doc["known"])
        if doc["none"] is not None:
            runner.expect_none(doc["none"])
        _range(doc["start"], inbox, outbox, runner, segments)
        known = shaper.features if shaper is not None else None
        outbox.send(
            {
                "did": "range",
                "none": runner.returns_none,
                "features": None if known is None else known.to_dict(),
            }
        )


def _loaded(unpack: Any, data: bytes) -> Any:
    try:
        return unpack(data)
    except Exception as error:
        from provender.data.errors import TransformError

        raise TransformError(
            f"The function cannot be loaded in a worker process: {type(error).__name__}: {error}",
            where="num_proc",
            hint="Its modules must be importable by name from sys.path; or leave num_proc out.",
            facts={"error": type(error).__name__},
        ) from error


def _range(
    start: int, inbox: Pipe, outbox: Pipe, runner: Runner | ShardRunner, segments: Any
) -> None:
    at = start
    with Written(segments, start) as written:
        while (message := inbox.receive()) is not None:
            doc, data = message
            if doc["do"] == "end":
                return
            table = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
            for position, made in runner.run(table, at):
                if not runner.returns_none:
                    written.write(made, position)
                outbox.send({"did": "rows", "count": position - at})
                if position > at and isinstance(runner, ShardRunner):
                    written.close()  # what is written of the next shard must not be taken for done
                at = position
        raise _Stop


def _told(error: BaseException) -> tuple[dict[str, Any], bytes]:
    """An error as a message; what the user's function raised goes along."""
    if isinstance(error, ProvenderError):
        doc = error.to_json()
    else:
        from provender.data.errors import TransformError

        doc = TransformError(
            f"A worker process failed: {type(error).__name__}: {error}", where="num_proc"
        ).to_json()
    cause = error.__cause__ if isinstance(error, ProvenderError) else error
    data = b""
    text = ""
    if cause is not None:
        text = "".join(traceback.format_exception(cause))
        with contextlib.suppress(Exception):
            import cloudpickle

            data = cloudpickle.dumps(cause)
            pickle.loads(data)  # noqa: S301 - our own bytes: some exceptions cannot be made again
    return {"did": "fail", "error": doc, "traceback": text}, data
