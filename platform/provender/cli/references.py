"""From what people type to what the catalog knows."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from provender.errors import UnknownReference
from provender.refs import DatasetRef

if TYPE_CHECKING:
    from provender.catalog import VersionRecord
    from provender.cli.invocation import Invocation


def version_of(call: Invocation, text: str, *, retracted: bool = True) -> VersionRecord:
    """The version that a reference means.

    Args:
        call: the invocation.
        text: the reference.
        retracted: whether a version that was taken back will do.

    Raises:
        UnknownReference: there is none; the message says what there is.
    """
    from provender.upkeep import find_version

    return find_version(call.catalog, DatasetRef.parse(text), retracted=retracted)


def known_dataset(call: Invocation, text: str) -> tuple[str, str]:
    """The dataset and config that a reference means, among those with a version, run or stage.

    Args:
        call: the invocation.
        text: the reference; without a config it means the only one that was built.

    Raises:
        UnknownReference: nothing of it was ever built, or several configs were.
        BuilderError: it names a class that cannot be made.
    """
    ref = DatasetRef.parse(text)
    if ref.target:
        return _of_class(call, ref)
    # A dataset whose builds all failed has runs and no version; data that was never published has
    # neither, only transforms.
    ran = [each.config for each in call.catalog.runs(ref.name)]
    ran += [each.config for each in call.catalog.stages(dataset=ref.name)]
    configs = sorted({*call.catalog.configs(ref.name), *ran})
    if ref.config in configs or (ref.config is None and "" in configs):
        return ref.name, ref.config or ""
    if ref.config is None and len(configs) == 1:
        return ref.name, configs[0]
    if configs:
        names = ", ".join(f"{ref.name}/{each}" if each else each for each in configs)
        message = f"{ref.name} has no config {ref.config!r}." if ref.config else "Which config?"
        raise UnknownReference(message, where=text, hint=f"There are: {names}.")
    near = difflib.get_close_matches(ref.name, call.catalog.dataset_names(), 3)
    raise UnknownReference(
        f"Nothing was ever built of {ref.name!r}.",
        where=text,
        hint=f"Near: {', '.join(near)}." if near else "`provender datasets` lists what there is.",
    )


def _of_class(call: Invocation, ref: DatasetRef) -> tuple[str, str]:
    from provender.engine.session import Options, open_session

    facts = open_session(ref, call.settings, Options(), catalog=call.catalog).facts
    return facts.name, facts.config
