"""Parameters that several commands share, typed and explained once."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from provender.cli.completion import complete_reference, complete_stage

Ref = Annotated[
    str,
    typer.Argument(
        metavar="REF",
        help="name, name:1.0.0, name/config, name@alias, module:Class or file.py:Class.",
        autocompletion=complete_reference,
        show_default=False,
    ),
]
OptionalRef = Annotated[
    str | None,
    typer.Argument(
        metavar="[REF]",
        help="Only this dataset.",
        autocompletion=complete_reference,
        show_default=False,
    ),
]
Run = Annotated[
    str | None,
    typer.Option("--run", metavar="ID", help="A run, by its id or the first digits of it."),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="At most so many, newest first.")]

ManualDir = Annotated[
    str | None,
    typer.Option("--manual-dir", metavar="DIR", help="Folder of the files people must provide."),
]
Config = Annotated[
    str | None, typer.Option("--config", metavar="NAME", help="Builder config, as in name/config.")
]
Version = Annotated[
    str | None,
    typer.Option("--version", metavar="X.Y.Z", help="Version to build, as in name:1.0.0."),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", help="Worker processes; by default one a CPU."),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="local|dask|beam",
        help="Where pieces run: this machine, a Dask cluster, or Apache Beam.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option("--address", metavar="URL", help="The Dask scheduler, tcp://host:8786."),
]
BeamPython = Annotated[
    str | None,
    typer.Option("--beam-python", metavar="FILE", help="The Python that has Apache Beam."),
]
BeamRunner = Annotated[
    str | None,
    typer.Option("--beam-runner", metavar="NAME", help="DirectRunner, DataflowRunner ..."),
]
BeamOption = Annotated[
    list[str] | None,
    typer.Option(
        "--beam-option",
        metavar="NAME=VALUE",
        help="A pipeline option of Beam's. Can be given again.",
    ),
]
NumShards = Annotated[
    int | None,
    typer.Option("--num-shards", metavar="N", help="Shards per split; by default as TFDS would."),
]
MaxExamples = Annotated[
    int | None,
    typer.Option(
        "--max-examples", metavar="N", help="Stop each split after so many; makes it a trial."
    ),
]
Trial = Annotated[
    bool, typer.Option("--trial", help="Build to look at it; the version number stays free.")
]
Force = Annotated[
    list[str] | None,
    typer.Option(
        "--force",
        metavar="STAGE",
        help="Run a stage although nothing changed: 'examples', 'shards/train/00003', 'all'. "
        "Can be given again.",
        autocompletion=complete_stage,
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Never touch the network.")]
RegisterChecksums = Annotated[
    bool,
    typer.Option(
        "--register-checksums", help="Accept what is downloaded and record its checksums."
    ),
]
AllowEmpty = Annotated[
    bool, typer.Option("--allow-empty", help="Publish splits that have no examples.")
]

Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="CHECK",
        help="Publish although this check fails: 'max_drift', 'max_drift:train/label'. Needs "
        "--reason. Can be given again.",
    ),
]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why a check may fail; recorded.")
]

BUILD: dict[str, tuple[Any, Any]] = {
    "manual_dir": (ManualDir, None),
    "workers": (Workers, None),
    "engine": (Engine, "local"),
    "address": (Address, None),
    "beam_python": (BeamPython, None),
    "beam_runner": (BeamRunner, None),
    "beam_option": (BeamOption, None),
    "num_shards": (NumShards, None),
    "max_examples": (MaxExamples, None),
    "trial": (Trial, False),
    "force": (Force, None),
    "offline": (Offline, False),
    "register_checksums": (RegisterChecksums, False),
    "allow_empty": (AllowEmpty, False),
}
"""The options of a build, by the names that `provender.engine.session.Options` has for them."""

PUBLISH: dict[str, tuple[Any, Any]] = {**BUILD, "allow": (Allow, None), "reason": (Reason, None)}
"""Likewise, for commands that publish."""
