"""How a command that publishes a version tells of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provender.cli.units import seconds_text

if TYPE_CHECKING:
    from provender.cli.invocation import Invocation
    from provender.nlp.pretraining.publishing import Standing


def show_version(call: Invocation, standing: Standing, seconds: float) -> None:
    """Shows the version that stands now.

    Args:
        call: the invocation.
        standing: the version, and what was done for it.
        seconds: that the command took.
    """
    from provender.cli.building import holdings

    version = standing.version
    if call.json:
        call.out.document({"version": version, "outcome": standing.outcome, "seconds": seconds})
        return
    if call.quiet:
        call.out.line(version.uri)
        return
    call.out.line(f"{version.name}  {version.status}", style="bold")
    done = "nothing to do" if standing.outcome == "cached" else standing.outcome
    call.out.pairs(
        [
            ("path", version.uri),
            ("holds", holdings(version)),
            ("time", f"{seconds_text(seconds)}, {done}"),
        ]
    )
