"""Arguments of `load_dataset` that Hugging Face Datasets has for its Hub."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from provender.errors import SettingsError
from provender.fingerprint.caller import users_level

_REUSE: Mapping[str, bool | None] = {
    "reuse_dataset_if_exists": None,
    "reuse_cache_if_exists": False,
    "force_redownload": False,
}
_CHECKS = ("all_checks", "basic_checks", "no_checks")


def reuse(mode: Any) -> bool | None:
    """False where ``download_mode`` says that prepared data is not to be taken, else None.

    Raises:
        SettingsError: there is no such mode.
    """
    return None if mode is None else _REUSE[_one_of("download_mode", mode, tuple(_REUSE))]


def check(mode: Any) -> None:
    """Refuses a ``verification_mode`` that there is not.

    Raises:
        SettingsError: there is no such mode.
    """
    if mode is not None and not isinstance(mode, bool):
        _one_of("verification_mode", mode, _CHECKS)


def _one_of(argument: str, mode: Any, known: tuple[str, ...]) -> str:
    name = str(getattr(mode, "value", mode)).lower()
    if name not in known:
        raise SettingsError(
            f"{argument} cannot be {mode!r}.",
            where=argument,
            hint=f"It is one of: {', '.join(known)}.",
        )
    return name


def storage_options(
    path: Any, data_files: Any, options: Mapping[str, Any] | None, token: bool | str | None
) -> dict[str, Any]:
    """The arguments for fsspec, with the token where it is meant for them."""
    made = dict(options or {})
    if not token:
        return made
    if any("hf://" in each for each in _texts((path, data_files))):
        made.setdefault("token", token)
    else:
        _warn(
            'token= is only used for hf:// addresses; others take storage_options={"token": ...}.'
        )
    return made


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str | os.PathLike):
        yield os.fspath(value)
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def no_revision(name: str, revision: Any) -> None:
    """Refuses ``revision`` for a named dataset.

    Raises:
        SettingsError: there is one.
    """
    if revision is not None:
        raise SettingsError(
            "A named dataset has no revision.",
            where="revision",
            hint=f'The version is part of the name: load_dataset("{name.split(":")[0]}:{revision}").',
        )


def unused_revision(revision: Any) -> None:
    """Warns that files are read as they are."""
    if revision is not None and revision != "main":
        _warn("revision= is not used: files are read as they are now.")


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=users_level())
