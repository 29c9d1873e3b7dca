"""The examples stage of a builder that prepares in steps: what its shards share, made in parts.

See `provender.builders.steps`. A step takes the place that a split has for builders that generate: its key
is ``examples/<step>``, its parts lie in the same folders, and whoever cuts, counts or cleans up those
treats both alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.builders.steps import Part, join_method, make_method
from provender.errors import BuilderError, ProvenderError
from provender.fingerprint import Tree, combine
from provender.stages import download, examples
from provender.stages.site import Progress, Workplace

if TYPE_CHECKING:
    from provender.builders.facts import BuilderFacts

Made = Mapping[str, Mapping[str, Any]]
"""Step -> ``fingerprint`` and ``parts`` of its stage: where its files lie, on any machine."""


def key(step: str) -> str:
    """The stage key of a step."""
    return examples.key(step)


def tree(facts: BuilderFacts, step: str, inputs: Tree, above: Mapping[str, str]) -> Tree:
    """The stage's fingerprint; it does not depend on the number of parts.

    Args:
        facts: the builder.
        step: the step.
        inputs: all bytes from outside.
        above: earlier step -> digest of what it left.
    """
    parts: dict[str, Any] = {
        "code": facts.code[make_method(step)],
        "setting": facts.steps[step].setting,
        "inputs": inputs,
        **{f"content of {key(each)}": digest for each, digest in above.items()},
    }
    joining = facts.code.get(join_method(step))
    if joining is not None:
        parts["joining code"] = joining
    return combine(key(step), parts)


def folder(work: Workplace, made: Mapping[str, Any]) -> Path:
    """Local folder of a finished step."""
    return examples.runs_dir(work, made["fingerprint"], made["parts"])


def tell(builder: Any, work: Workplace, made: Made) -> None:
    """Tells a builder where earlier steps lie."""
    builder.made = {step: folder(work, each) for step, each in made.items()}


def run_make(work: Workplace, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Makes one part of a step.

    Args:
        work: the place of work.
        args: ``step``, ``fingerprint``, ``part``, ``parts``, ``made`` (of earlier steps).
        progress: told what the builder tells.

    Returns:
        ``files``: name -> size and sha256.

    Raises:
        BuilderError: the builder raised, or gave what is no file of the step.
    """

    def told(done: int, total: int | None, unit: str) -> None:
        progress({"done": done, "total": total, "unit": unit})

    part = Part(_own_folder(work, args), args["part"], args["parts"], told)
    builder = work.afresh().builder
    tell(builder, work, args["made"])
    method = make_method(args["step"])
    files = _called(args, method, lambda: getattr(builder, method)(part))
    return {"files": _described(part.folder, files, args, method)}


def run_join(work: Workplace, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Joins the parts of a step.

    Args:
        work: the place of work.
        args: ``step``, ``fingerprint``, ``parts``: results of all parts; ``made`` of earlier steps.
        progress: not told anything.

    Returns:
        ``files``: name -> size and sha256; ``digest`` of all of them; ``bytes`` in all; ``parts``:
        how many there were.

    Raises:
        BuilderError: as `run_make`.
    """
    parts = args["parts"]
    place = _own_folder(work, {**args, "parts": len(parts)})
    builder = work.afresh().builder
    method = join_method(args["step"])
    files = {name: each for part in parts for name, each in part["files"].items()}
    if hasattr(builder, method):
        tell(builder, work, args["made"])
        found = _called(args, method, lambda: getattr(builder, method)(place, len(parts)))
        files = _described(place, found, args, method)
    content = hashlib.sha256()
    for name in sorted(files):
        content.update(f"{name}\0{files[name][1]}\n".encode())
    return {
        "files": files,
        "digest": content.hexdigest(),
        "bytes": sum(size for size, _ in files.values()),
        "parts": len(parts),
    }


def _own_folder(work: Workplace, args: Mapping[str, Any]) -> Path:
    found = examples.runs_dir(work, args["fingerprint"], args["parts"])
    found.mkdir(parents=True, exist_ok=True)
    return found


def _called(args: Mapping[str, Any], method: str, call: Callable[[], Any]) -> Iterable[Path]:
    try:
        found = call()
        return [Path(each) for each in found]
    except ProvenderError:
        raise
    except Exception as error:
        raise BuilderError(
            f"{method} raised {type(error).__name__}: {error}",
            where=key(args["step"]),
            facts={"traceback": download.traceback_of(error)},
        ) from error


def _described(
    place: Path, files: Iterable[Path], args: Mapping[str, Any], method: str
) -> dict[str, Any]:
    described = {}
    for path in files:
        if not path.is_relative_to(place) or not path.is_file():
            raise BuilderError(
                f"{method} gave {path}, which is no file of its folder.",
                where=key(args["step"]),
                hint="Give the paths of files below the folder it was told.",
            )
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        described[path.relative_to(place).as_posix()] = [path.stat().st_size, sha256]
    return described
