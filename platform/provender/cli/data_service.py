"""``data-service``: the dispatcher and the workers of a tf.data service."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from provender.cli.commands import command, epilog
from provender.cli.invocation import Invocation
from provender.cli.parsing import Group

DISPATCHER_PORT, DISPATCHER_HTTP_PORT = 5050, 5051
_LOOPBACK = "127.0.0.1"

Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="The address to be reached at besides loopback; 0.0.0.0 means every one.",
    ),
]
Port = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="gRPC port; 0 takes any free one.")
]
HttpPort = Annotated[
    int,
    typer.Option(
        "--http-port",
        min=0,
        max=65535,
        help="Port of /healthz, /readyz and /metrics; 0 takes any free one.",
    ),
]
Restart = Annotated[
    bool, typer.Option("--restart", help="Watch over the server and start it again when it breaks.")
]


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    group = typer.Typer(
        cls=Group,
        no_args_is_help=True,
        rich_markup_mode=None,
        help="A tf.data service: preprocessing on machines of their own.",
        epilog=epilog(
            "provender data-service dispatcher --work-dir /var/lib/provender/dispatcher",
            "provender data-service worker --dispatcher 127.0.0.1:5050",
        ),
    )
    command(
        group,
        "dispatcher",
        "provender data-service dispatcher --work-dir /var/lib/provender/dispatcher",
        "provender data-service dispatcher --host 10.0.0.5 --restart",
    )(dispatcher)
    command(
        group,
        "worker",
        "provender data-service worker --dispatcher 127.0.0.1:5050",
        "provender data-service worker --dispatcher 10.0.0.5:5050 --host 10.0.0.6 --port 5060",
    )(worker)
    app.add_typer(group, name="data-service")


def dispatcher(
    call: Invocation,
    host: Host = _LOOPBACK,
    port: Port = DISPATCHER_PORT,
    http_port: HttpPort = DISPATCHER_HTTP_PORT,
    work_dir: Annotated[
        str | None,
        typer.Option(
            "--work-dir",
            metavar="DIR",
            help="Folder of the journal, with which a restart goes on. Without it jobs are lost.",
        ),
    ] = None,
    job_timeout: Annotated[
        float,
        typer.Option(
            "--job-timeout",
            min=1,
            metavar="SECONDS",
            help="Time without a reader after which a job is forgotten.",
        ),
    ] = 300,
    restart: Restart = False,
) -> int | None:
    """Run the dispatcher: it knows the workers and tells trainers where they are.

    It ends on SIGTERM or Ctrl-C. Nobody is asked for a password, so anyone who reaches the port
    can run code on the workers: keep it inside a network that you trust.
    """
    if restart:
        return _watched(
            call,
            "dispatcher",
            *_place(host, port, http_port),
            *(["--work-dir", work_dir] if work_dir else []),
            f"--job-timeout={job_timeout:g}",
        )
    from provender.nlp.service.running import DispatcherOptions, Place, run_dispatcher

    options = DispatcherOptions(Place(host, port, http_port), work_dir, job_timeout)
    if work_dir is None:
        call.out.aside("No --work-dir: a restart of the dispatcher forgets its jobs.")
    run_dispatcher(options, lambda address, url: _tell(call, "dispatcher", address, url))
    return None


def worker(
    call: Invocation,
    dispatcher_address: Annotated[
        str,
        typer.Option(
            "--dispatcher", metavar="HOST:PORT", help="Where the dispatcher is; grpc:// may lead."
        ),
    ],
    host: Host = _LOOPBACK,
    port: Port = 0,
    http_port: HttpPort = 0,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="HOST",
            help="Name under which trainers reach this worker, if not --host.",
        ),
    ] = None,
    heartbeat: Annotated[
        float,
        typer.Option(
            "--heartbeat", min=0.1, metavar="SECONDS", help="Time between words to the dispatcher."
        ),
    ] = 5,
    wait: Annotated[
        float,
        typer.Option(
            "--wait", min=0, metavar="SECONDS", help="How long to wait for the dispatcher to start."
        ),
    ] = 60,
    drain: Annotated[
        float,
        typer.Option(
            "--drain",
            min=0,
            metavar="SECONDS",
            help="How long tasks may take to end after SIGTERM.",
        ),
    ] = 30,
    restart: Restart = False,
) -> int | None:
    """Run a worker: it reads and preprocesses for trainers, as the dispatcher tells it.

    On SIGTERM or Ctrl-C it waits for its tasks to end, at most --drain seconds; a second signal
    ends it at once. A worker that broke must come back at its address, or readers wait for it: give
    a fixed --port, or --restart.
    """
    if restart:
        return _watched(
            call,
            "worker",
            f"--dispatcher={dispatcher_address}",
            *_place(host, port, http_port),
            *([f"--address={address}"] if address else []),
            f"--heartbeat={heartbeat:g}",
            f"--wait={wait:g}",
            f"--drain={drain:g}",
        )
    from provender.nlp.service.running import Place, WorkerOptions, run_worker

    options = WorkerOptions(
        dispatcher_address, Place(host, port, http_port), address, heartbeat, wait, drain
    )
    run_worker(options, lambda found, url: _tell(call, "worker", found, url))
    return None


def _place(host: str, port: int, http_port: int) -> list[str]:
    from provender.nlp.service.addresses import claim_port

    # A server that comes back is found by its address, so that has to stay the same.
    port = claim_port(port, "--port")
    return [f"--host={host}", f"--port={port}", f"--http-port={http_port}"]


def _watched(call: Invocation, *arguments: str) -> int:
    from provender.nlp.service.supervising import supervise

    start = "from provender.cli import main; main()"
    shared = [
        option
        for option, wanted in (
            ("--json", call.json),
            ("--quiet", call.quiet),
            ("--verbose", call.verbose),
        )
        if wanted
    ]
    program = [sys.executable, "-c", start, "data-service", *arguments, *shared]
    # Under --json this process's own standard output is turned away from what libraries print.
    return supervise(program, _warn, call.out.stream)


def _tell(call: Invocation, role: str, address: str, url: str) -> None:
    if call.json:
        call.out.document({"role": role, "address": address, "http": url})
    else:
        call.out.line(address)
        call.out.remark(f"Health and metrics: {url}/healthz and {url}/metrics. Ctrl-C ends it.")
    call.out.stream.flush()


def _warn(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
