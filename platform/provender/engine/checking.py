"""Between the last shard and the published version: does it hold what the project asks for?

The checks of ``[datasets.NAME.checks]`` look at the statistics that were collected while examples
were written. A build that fails one is not published; what it made is kept, so that the same
command with ``--allow`` only publishes. Every outcome is recorded, and so is who overrode what, and
why.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from provender.catalog import CheckRecord, VersionRecord
from provender.catalog.runs import user_name
from provender.engine.plan import Step
from provender.engine.session import Session
from provender.errors import ChecksFailed, ProvenderError, SettingsError
from provender.settings import Checks
from provender.stages import checks, statistics
from provender.stages.checks import ALLOWED, FAILED, Before, Outcome


def check(session: Session, step: Step, run_id: str) -> list[CheckRecord]:
    """Makes the project's checks of what is about to be published, and records what they find.

    A trial is checked and recorded too, but nothing it fails keeps it from being looked at.

    Args:
        session: the build.
        step: the register step, with all its arguments.
        run_id: the run.

    Returns:
        The outcomes; none where the project asks for no checks.

    Raises:
        ChecksFailed: a check failed, and was not allowed to.
        SettingsError: ``--allow`` names no check of this dataset, or nothing that it looks at.
    """
    rules = rules_of(session)
    if rules is None:
        return []
    counts = _counts(step)
    figures = _figures(session, step)
    before = _before(session) if rules.max_drift else None
    folder = session.settings.path.parent if session.settings.path else None
    functions = {name: checks.load_function(at, folder) for name, at in rules.functions.items()}
    found = checks.evaluate(rules, counts, figures, before, functions)
    _refuse_unknown_scopes(session.options.allow, _scopes(found, counts, figures))
    now = datetime.now(UTC)
    records = [_record(session, each, run_id, now) for each in found]
    session.catalog.record_checks(records)
    failed = [each for each in records if each.state == FAILED]
    if failed and not session.options.is_trial:
        raise _failed(session, failed)
    return records


def rules_of(session: Session) -> Checks | None:
    """What the project asks of a dataset; checks that ``--allow`` names are among it.

    Raises:
        SettingsError: one is not.
    """
    entry = session.settings.datasets.get(session.facts.name)
    rules = entry.checks if entry and entry.checks and entry.checks.names else None
    known = rules.names if rules else ()
    for each in session.options.allow:
        name = each.partition(":")[0]
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}."
            if not known:
                hint = f"[datasets.{session.facts.name}.checks] of provender.toml has none."
            raise SettingsError(
                f"{session.facts.name} has no check {name!r}.", where="--allow", hint=hint
            )
    return rules


def _scopes(
    found: Sequence[Outcome], counts: Mapping[str, int], figures: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """What ``--allow CHECK:SCOPE`` may name: splits, their features, and what checks made up."""
    scopes = [
        *counts,
        *(
            f"{split}/{name}"
            for split, doc in figures.items()
            for name in doc.get("features") or {}
        ),
        *(each.scope for each in found if each.scope),
    ]
    return list(dict.fromkeys(scopes))


def _refuse_unknown_scopes(allow: Sequence[str], scopes: Sequence[str]) -> None:
    """Raises `SettingsError` where ``--allow`` names a split or feature that is not there.

    Not before the examples are made, for until then nobody knows what there is.
    """
    for each in allow:
        name, colon, scope = each.partition(":")
        if not colon or scope in scopes:
            continue
        # Of a feature that is written without its split, the first split's.
        near = [full for full in scopes if full.partition("/")[2] == scope]
        near = near or difflib.get_close_matches(scope, scopes, 1)
        hint = f"Did you mean '{name}:{near[0]}'?" if near else f"There are: {', '.join(scopes)}."
        raise SettingsError(
            f"{name} looks at no split or feature {scope!r}.", where=f"--allow {each}", hint=hint
        )


def _counts(step: Step) -> dict[str, int]:
    if "prepared" in step.args:
        return {name: int(each["examples"]) for name, each in step.args["prepared"].items()}
    return {
        name: sum(int(shard["examples"]) for shard in shards)
        for name, shards in step.args["splits"].items()
    }


def _figures(session: Session, step: Step) -> dict[str, dict[str, Any]]:
    """The statistics of what is about to be published; empty where there can be none."""
    if "splits" not in step.args:
        return {}
    work = session.work

    def schema() -> Any:
        return statistics.schema_of(work.loaded.builder.info.features)

    return {
        name: statistics.of_split(
            work.store,
            step.args["statistics"][name],
            [each["files"][0] for each in shards],
            schema,
        )
        for name, shards in step.args["splits"].items()
    }


def _before(session: Session) -> Before | None:
    """The published version with the highest number below this one, else the newest other."""
    facts = session.facts
    others = [
        each
        for each in session.catalog.versions(facts.name, ("published",), config=facts.config)
        if each.version != facts.version
    ]
    lower = [each for each in others if _number(each.version) < _number(facts.version)]
    best = max(lower, key=lambda each: _number(each.version), default=None)
    version = best or next(iter(others), None)
    return None if version is None else Before(version.name, _known(session, version))


def _known(session: Session, version: VersionRecord) -> dict[str, dict[str, Any]]:
    """The statistics of a published version; those of one that has none are made now, and kept."""
    found = session.catalog.statistics(version.id)
    if all(found.values()):
        return found
    try:
        return statistics.compute(session.work.store, session.catalog, version)
    except ProvenderError as error:
        statistics.told(version.name, error)
        return found


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _record(session: Session, found: Outcome, run_id: str, now: datetime) -> CheckRecord:
    options, facts = session.options, session.facts
    wanted = {found.name, found.label, f"{found.name}:{found.scope.partition('/')[0]}"}
    allowed = found.state == FAILED and bool(wanted & set(options.allow))
    return CheckRecord(
        run_id=run_id,
        dataset=facts.name,
        config=facts.config,
        version=facts.version,
        name=found.name,
        scope=found.scope,
        state=ALLOWED if allowed else found.state,
        measured=None if found.measured is None else float(found.measured),
        bound=None if found.bound is None else float(found.bound),
        message=found.message,
        allowed_by=user_name() or "unknown" if allowed else None,
        allow_reason=options.reason if allowed else None,
        at=now,
    )


def _failed(session: Session, failed: Sequence[CheckRecord]) -> ChecksFailed:
    facts = session.facts
    lines = [
        f"  {each.name}{f' ({each.scope})' if each.scope else ''}: {each.message}"
        for each in failed
    ]
    names = " ".join(f"--allow {name}" for name in dict.fromkeys(each.name for each in failed))
    checks_word = "1 check" if len(failed) == 1 else f"{len(failed)} checks"
    return ChecksFailed(
        f"{facts.ref}:{facts.version} fails {checks_word} and was not published:\n"
        + "\n".join(lines),
        where=f"[datasets.{facts.name}.checks]"
        + (f" of {session.settings.path}" if session.settings.path else ""),
        hint="Mend the data; or, if this is as it should be: "
        f'provender build … {names} --reason "…" (nothing is made again).',
        facts={"failed": [_fact(each) for each in failed]},
    )


def _fact(record: CheckRecord) -> Mapping[str, Any]:
    return {
        "check": record.name,
        "scope": record.scope,
        "message": record.message,
        "measured": record.measured,
        "bound": record.bound,
    }
