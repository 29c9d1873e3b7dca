"""Taking a version back, with a reason that everyone who asks for it will read."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

from provender.errors import ConflictError, SettingsError

if TYPE_CHECKING:
    from provender.catalog import Catalog, VersionRecord


def retract(
    catalog: Catalog,
    version: VersionRecord,
    reason: str,
    who: str | None = None,
    successor: VersionRecord | None = None,
) -> VersionRecord:
    """Takes a published version back; its record and its files stay.

    Args:
        catalog: where it is recorded.
        version: the version.
        reason: why.
        who: who decides it; by default the account that this process runs as.
        successor: what to use instead; aliases move there.

    Returns:
        The version as it stands now; retracting twice is once.

    Raises:
        SettingsError: no reason is given.
        ConflictError: it is no published version, or the successor cannot stand in for it.
    """
    if not reason.strip():
        raise SettingsError(
            "A version is not taken back without a reason.",
            where="--reason",
            hint="Say what is wrong with it: people who trained on it will read that.",
        )
    if version.status not in ("published", "retracted"):
        raise ConflictError(
            f"{version.name} is a {version.status}, which nobody was promised.",
            where=version.uri,
            hint="Only published versions can be retracted.",
        )
    if successor is not None:
        _check_successor(version, successor)
    return catalog.retract(
        version.id, reason.strip(), who or _account(), successor.id if successor else None
    )


def _check_successor(version: VersionRecord, successor: VersionRecord) -> None:
    if successor.id == version.id:
        why = "a version cannot succeed itself"
    elif (successor.dataset, successor.config) != (version.dataset, version.config):
        why = "it is another dataset"
    elif successor.status != "published":
        why = f"it is {successor.status}, not published"
    else:
        return
    raise ConflictError(
        f"{successor.name} cannot stand in for {version.name}: {why}.", where=version.name
    )


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
