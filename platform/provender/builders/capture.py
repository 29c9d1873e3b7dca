"""What `_split_generators` would generate, captured as data before anything is generated.

TFDS builders come in two styles: a list of `SplitGenerator(name, gen_kwargs)`, and a dict of
split name to `self._generate_examples(...)`. The first is data already. For the second,
`_generate_examples` is replaced on the instance by a recorder while `_split_generators` runs; a
generator of any other method shows its arguments in its own frame, which has not started yet.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import GeneratorType
from typing import Any

from provender.errors import BuilderError, SplitError

EXAMPLES = "_generate_examples"
PCOLLECTION = "_build_pcollection"
"""What a `tfds.core.BeamBasedBuilder` has in place of it."""


@dataclass(frozen=True)
class Call:
    """One split's generator call.

    Attributes:
        function: name of the builder method, or None where only running `_split_generators`
            again gives the examples.
        args: positional arguments.
        kwargs: keyword arguments.
    """

    function: str | None
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def capture(builder: Any, dl_manager: Any, pipeline: Any = None) -> dict[str, Call]:
    """Runs `_split_generators` and captures each split's call.

    Args:
        builder: a `tfds.core.GeneratorBasedBuilder`.
        dl_manager: what it is given to download with.
        pipeline: a Beam pipeline that is never run, for a builder that generates with Beam.

    Returns:
        Split name -> call, in the builder's order.

    Raises:
        BuilderError: it returns something that is no split, or needs Beam.
        SplitError: no splits at all, or one named twice.
    """
    found = _split_generators(builder, dl_manager, pipeline, record=True)
    return {name: _call_of(builder, value, pipeline) for name, value in found.items()}


def examples_of(builder: Any, dl_manager: Any, split: str, pipeline: Any = None) -> Any:
    """Runs `_split_generators` again and returns the (key, example) pairs of one split.

    Args:
        builder: a `tfds.core.GeneratorBasedBuilder`.
        dl_manager: what it is given to download with.
        split: split name.
        pipeline: the Beam pipeline that is going to run, for a builder that generates with Beam.

    Returns:
        An iterable of pairs, or a Beam transform or collection of them.
    """
    found = _split_generators(builder, dl_manager, pipeline, record=False)
    if split not in found:
        raise SplitError(
            f"Split {split!r} was planned, but _split_generators no longer returns it.",
            where=type(builder).__name__,
            hint="It must return the same splits each time it is called with the same files.",
        )
    value = found[split]
    if isinstance(value, Call):
        return run(builder, value, pipeline)
    return value


def run(builder: Any, call: Call, pipeline: Any = None) -> Any:
    """Calls the captured method for real; `_build_pcollection` is given the pipeline first."""
    if call.function is None:
        message = "This call can only be replayed."
        raise ValueError(message)
    first: tuple[Any, ...] = ()
    if call.function == EXAMPLES and hasattr(builder, PCOLLECTION):
        first = (pipeline,)
    return getattr(builder, call.function)(*first, *call.args, **call.kwargs)


def _split_generators(
    builder: Any, dl_manager: Any, pipeline: Any, *, record: bool
) -> dict[str, Any]:
    arguments = {}
    if "pipeline" in inspect.signature(builder._split_generators).parameters:
        if pipeline is None:
            raise _needs_beam(builder)
        # It may put what `_generate_examples` returns behind a `|`, which a recorder cannot be.
        arguments, record = {"pipeline": pipeline}, False
    if pipeline is None and hasattr(builder, PCOLLECTION):
        raise _needs_beam(builder)
    if record:
        builder.__dict__[EXAMPLES] = lambda *args, **kwargs: Call(EXAMPLES, args, kwargs)
    try:
        returned = builder._split_generators(dl_manager, **arguments)
    finally:
        builder.__dict__.pop(EXAMPLES, None)
    return _by_name(builder, returned)


def _by_name(builder: Any, returned: Any) -> dict[str, Any]:
    if isinstance(returned, Mapping):
        pairs = [(str(name), value) for name, value in returned.items()]
    elif isinstance(returned, Iterable) and not isinstance(returned, str | bytes):
        pairs = []
        for each in returned:
            if not (hasattr(each, "name") and hasattr(each, "gen_kwargs")):
                raise BuilderError(
                    f"_split_generators returned a list holding {type(each).__name__}.",
                    where=type(builder).__name__,
                    hint="Return a dict of split name to generator, or tfds.core.SplitGenerator.",
                )
            pairs.append((str(each.name), Call(EXAMPLES, (), dict(each.gen_kwargs or {}))))
    else:
        raise BuilderError(
            f"_split_generators returned {type(returned).__name__}.",
            where=type(builder).__name__,
            hint="Return a dict of split name to generator.",
        )
    if not pairs:
        raise SplitError("_split_generators returned no splits.", where=type(builder).__name__)
    names = [name for name, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SplitError(f"Split {twice[0]!r} is returned twice.", where=type(builder).__name__)
    return dict(pairs)


def _call_of(builder: Any, value: Any, pipeline: Any) -> Call:
    if isinstance(value, Call):
        return value
    if is_beam(value):
        if pipeline is None:
            raise _needs_beam(builder)
        return Call(None)
    if isinstance(value, GeneratorType) and inspect.getgeneratorstate(value) == inspect.GEN_CREATED:
        call = _from_frame(builder, value)
        value.close()
        return call
    if not isinstance(value, Iterable):
        raise BuilderError(
            f"A split's value is {type(value).__name__}, which cannot be iterated over.",
            where=type(builder).__name__,
            hint="Give each split a generator of (key, example) pairs.",
        )
    return Call(None)


def _from_frame(builder: Any, generator: GeneratorType) -> Call:
    """Reads the arguments of a generator method that has not started."""
    code = generator.gi_code
    method = getattr(type(builder), code.co_name, None)
    takes_star = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    if getattr(method, "__code__", None) is not code or takes_star or code.co_posonlyargcount:
        return Call(None)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    values = generator.gi_frame.f_locals if generator.gi_frame else {}
    if not names or values.get(names[0]) is not builder:
        return Call(None)
    return Call(code.co_name, (), {name: values[name] for name in names[1:]})


def is_beam(value: Any) -> bool:
    """Whether something is a Beam transform or collection, told without importing Beam."""
    return any(each.__module__.partition(".")[0] == "apache_beam" for each in type(value).__mro__)


def _needs_beam(builder: Any) -> BuilderError:
    return needs_beam(f"{type(builder).__module__}.{type(builder).__name__}")


def needs_beam(where: str) -> BuilderError:
    """The error for a builder that generates with Beam, built without it."""
    return BuilderError(
        f"{where.rpartition('.')[2]} generates its examples with Apache Beam.",
        where=where,
        hint="Build it with --engine beam; docs/beam.md says what that needs.",
    )
