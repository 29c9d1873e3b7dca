"""``stats`` and ``diff``: what is in a version, and what differs between two."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from provender.cli import parameters as p
from provender.cli.commands import command
from provender.cli.histograms import bar, figure, spark
from provender.cli.invocation import Invocation
from provender.cli.tables import Column
from provender.cli.units import bytes_text, counted
from provender.errors import UnknownReference

if TYPE_CHECKING:
    from provender.questions.diff import ExampleDiff, SplitExamples, VersionDiff

Document = Mapping[str, Any]
_GROUPS = {
    "numbers": "value",
    "characters": "characters",
    "bytes": "bytes",
    "length": "values an example",
    "width": "width",
    "height": "height",
}
_SHOWN = 12
_CELL = 120
_NOTEWORTHY = 0.05
"""Drift below this is listed only with --verbose: a new sample of the same source can give it."""

Split = Annotated[
    str | None, typer.Option("--split", metavar="NAME", help="Only this split; else all of them.")
]


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    command(app, "stats", "provender stats xsum", "provender stats xsum --feature document")(stats)
    command(
        app,
        "diff",
        "provender diff xsum:1.0.0 xsum:1.1.0",
        "provender diff xsum:1.0.0 xsum:1.1.0 --examples --key id",
    )(diff)


# -- stats ----------------------------------------------------------------------------------------------


def stats(
    call: Invocation,
    ref: p.Ref,
    split: Split = None,
    feature: Annotated[
        str | None,
        typer.Option("--feature", metavar="NAME", help="Everything about this feature."),
    ] = None,
    compute: Annotated[
        bool,
        typer.Option(
            "--compute", help="Make them now where there are none, by reading the version."
        ),
    ] = False,
) -> None:
    """Show what is in a version: ranges, lengths, labels, frequent values, and what is missing."""
    from provender.cli.references import version_of

    version = version_of(call, ref)
    figures = call.catalog.statistics(version.id)
    if not all(figures.values()) and compute:
        from provender.stages.statistics import compute as run_compute

        reading = call.catalog.lease(version.id, "stats", wait=0)
        with reading, _bar(call, "reading", "shards") as progress:
            figures = run_compute(call.store, call.catalog, version, progress)
    if not any(figures.values()):
        raise UnknownReference(
            f"{version.name} has no statistics: it was made before they were kept, or by a "
            "builder that writes its own files.",
            where=version.name,
            hint=f"`provender stats {version.name} --compute` reads it and makes them.",
        )
    chosen = {split: _named(figures, split, "split")} if split is not None else figures
    if feature is not None:
        known = {name: None for doc in chosen.values() for name in doc.get("features") or {}}
        _named(known, feature, "feature")
    if call.json:
        call.out.document(
            {"version": version.name, "splits": {n: _only(d, feature) for n, d in chosen.items()}}
        )
        return
    for i, (name, doc) in enumerate(chosen.items()):
        if i:
            call.out.line()
        _show_split(call, name, doc, feature)


def _named(known: Mapping[str, Any], name: str, what: str) -> Any:
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, 1)
    raise UnknownReference(
        f"There is no {what} {name!r}.",
        where=f"--{what}",
        hint=f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}.",
    )


def _only(doc: Document, feature: str | None) -> Document:
    if feature is None:
        return doc
    features = {n: each for n, each in (doc.get("features") or {}).items() if n == feature}
    return {**doc, "features": features}


def _show_split(call: Invocation, name: str, doc: Document, feature: str | None) -> None:
    if not doc:
        call.out.line(f"{name}: no statistics")
        return
    size = doc["bytes"]
    call.out.line(
        f"{name}: {counted(doc['examples'], 'example')}, {bytes_text(size['sum'])}"
        f" ({figure(size['mean'])} bytes each on average)",
        style="bold",
    )
    if feature is not None:
        about = doc["features"].get(feature)
        if about is not None:
            _show_feature(call, about)
        return
    columns = [
        Column("feature"),
        Column("kind"),
        Column("missing", right=True),
        Column("empty", right=True),
        Column("different", right=True),
        Column("of what"),
        Column("min", right=True),
        Column("mean", right=True),
        Column("median", right=True),
        Column("max", right=True),
        Column("distribution"),
    ]
    call.out.table(columns, [_row(n, about) for n, about in doc["features"].items()])


def _row(name: str, about: Document) -> tuple[str, ...]:
    distinct = about.get("distinct")
    different = ""
    if distinct:
        different = ("" if distinct["exact"] else "~") + f"{distinct['count']:,}"
    kind = f"{about['kind']}, many" if about["sequence"] else about["kind"]
    head = (name, kind, figure(about["missing"]), figure(about["empty"]), different)
    group = next((each for each in _GROUPS if each in about), None)
    if group is None:
        return (*head, "", "", "", "", "", _label_line(about))
    numbers = about[group]
    return (
        *head,
        _GROUPS[group],
        figure(numbers["min"]),
        figure(numbers["mean"]),
        figure(numbers["quantiles"].get("0.5")),
        figure(numbers["max"]),
        _label_line(about) if "labels" in about else spark(numbers),
    )


def _label_line(about: Document) -> str:
    """The most frequent labels in short: ``calm 50 %, loud 50 %``."""
    if "labels" not in about:
        return ""
    labels = about["labels"]
    counts = sorted(labels["counts"], key=lambda each: -each[1])
    total = sum(count for _, count in counts) or 1
    shown = [
        f"{labels['names'].get(str(label), label)} {count / total:.0%}"
        for label, count in counts[:3]
    ]
    return ", ".join(shown) + (", …" if len(counts) > 3 else "")


def _show_feature(call: Invocation, about: Document) -> None:
    distinct = about.get("distinct") or {}
    different = "" if not distinct else f"{distinct['count']:,}"
    call.out.pairs(
        [
            ("kind", about["kind"] + (", any number an example" if about["sequence"] else "")),
            ("missing", f"{about['missing']:,}"),
            ("empty", f"{about['empty']:,}"),
            ("different", different + ("" if distinct.get("exact", True) else " (estimated)")),
            *(("images", f"{form}: {n:,}") for form, n in (about.get("pictures") or {}).items()),
        ]
    )
    groups = {name: about[name] for name in _GROUPS if name in about}
    if groups:
        call.out.line()
        names = ("min", "0.01", "0.05", "0.25", "0.5", "0.75", "0.95", "0.99", "max")
        titles = ("min", "1 %", "5 %", "25 %", "50 %", "75 %", "95 %", "99 %", "max")
        columns = [Column("of what"), *(Column(t, right=True) for t in titles)]
        columns += [Column("mean", right=True), Column("std", right=True), Column("distribution")]
        call.out.table(
            columns, [_quantile_row(_GROUPS[n], each, names) for n, each in groups.items()]
        )
    rows, titled = _value_rows(call, about)
    if rows:
        call.out.line()
        call.out.table(
            [Column(titled), Column("times", right=True), Column("share", right=True), Column("")],
            rows,
        )


def _quantile_row(title: str, numbers: Document, names: tuple[str, ...]) -> tuple[str, ...]:
    values = {**numbers["quantiles"], "min": numbers["min"], "max": numbers["max"]}
    shown = [figure(values.get(name)) for name in names]
    return (title, *shown, figure(numbers["mean"]), figure(numbers["std"]), spark(numbers))


def _value_rows(call: Invocation, about: Document) -> tuple[list[Sequence[str]], str]:
    most = None if call.verbose else _SHOWN
    if "labels" in about:
        labels = about["labels"]
        total = sum(count for _, count in labels["counts"]) or 1
        found = [
            (labels["names"].get(str(label), str(label)), count, count / total)
            for label, count in sorted(labels["counts"], key=lambda each: (-each[1], each[0]))
        ]
        title = "label"
    else:
        frequent = about.get("frequent") or {"values": [], "exact": True}
        found = [(v["value"], v.get("count"), v["share"]) for v in frequent["values"]]
        title = "value" if frequent["exact"] else "value (estimated from a sample)"
    rows: list[Sequence[str]] = [
        (_quoted(str(value)), figure(times), f"{share:.1%}", bar(share))
        for value, times, share in found[:most]
    ]
    if len(found) > len(rows):
        rows.append((f"and {len(found) - len(rows)} more", "", "", ""))
    return rows, title


def _quoted(text: str) -> str:
    """A value on one line; blanks at its ends are made visible."""
    shown = text.replace("\n", "↵").replace("\t", "⇥")
    return repr(shown) if shown != shown.strip() or not shown else shown


@contextmanager
def _bar(call: Invocation, what: str, unit: str) -> Iterator[Callable[[int, int], None] | None]:
    """A moving bar that counts, on a terminal."""
    if not call.out.is_terminal or call.quiet:
        yield None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn(unit, markup=False),
        TimeRemainingColumn(compact=True),
        console=call.out.console,
        transient=True,
    ) as moving:
        task = moving.add_task(what, total=None)
        yield lambda done, total: moving.update(task, completed=done, total=total)


# -- diff -----------------------------------------------------------------------------------------------


def diff(
    call: Invocation,
    a: Annotated[str, typer.Argument(metavar="A", help="A version, usually the older one.")],
    b: Annotated[str, typer.Argument(metavar="B", help="A version, usually the newer one.")],
    examples: Annotated[
        bool, typer.Option("--examples", help="Compare the examples too; reads what differs.")
    ] = False,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="FEATURE",
            help="Feature that tells the same example in both; implies --examples.",
        ),
    ] = None,
    split: Split = None,
    samples: Annotated[
        int, typer.Option("--samples", min=0, help="Examples shown of each kind and split.")
    ] = 3,
    compute: Annotated[
        bool,
        typer.Option("--compute", help="Make missing statistics now, by reading the versions."),
    ] = False,
) -> None:
    """Say what differs between two versions: features, splits, figures, causes, and examples.

    Without --key, examples are matched by their whole content: a changed one counts as one removed
    and one added.
    """
    from provender.cli.references import version_of
    from provender.questions.diff import diff as run_diff

    before, after = (version_of(call, each) for each in (a, b))
    entry = call.settings.datasets.get(after.dataset)
    key = key or (entry.key if entry and examples else None)
    reading = [call.catalog.lease(each.id, "diff", wait=0) for each in (before, after)]
    with reading[0], reading[1], _bar(call, "comparing", "examples") as progress:
        found = run_diff(
            call.catalog,
            call.store,
            before,
            after,
            examples=examples or key is not None,
            key=key,
            samples=samples,
            splits=[split] if split else None,
            compute=compute,
            progress=progress,
        )
    if call.json:
        call.out.document(found.to_json())
        return
    _show(call, found)


def _show(call: Invocation, found: VersionDiff) -> None:
    call.out.line(f"{found.a} -> {found.b}", style="bold")
    if found.same:
        call.out.line("Both hold the same.")
    _section(
        call,
        [Column("feature"), Column("change"), Column("before"), Column("after")],
        [(f.name, f.change, f.before or "", f.after or "") for f in found.features],
    )
    columns = [Column("split"), Column("change"), Column("examples", right=True)]
    columns += [Column("size", right=True), Column("shards", right=True)]
    _section(
        call,
        columns,
        [
            (
                s.name,
                s.change,
                _moved(*s.examples),
                _moved(*s.bytes, bytes_text),
                f"{_moved(*s.shards)} ({s.equal_shards} equal)",
            )
            for s in found.splits
        ],
    )
    _show_drift(call, found)
    rows = [(m.path, _short(m.before), _short(m.after)) for m in found.metadata]
    titles = ("description", "before", "after")
    _section(call, [Column(t, wraps=i > 0) for i, t in enumerate(titles)], rows)
    causes = [(_some(list(c.stages)), c.text) for c in found.causes]
    _section(call, [Column("stage"), Column("cause", wraps=True)], causes)
    if found.examples is not None:
        _show_examples(call, found.examples)
    for note in found.notes:
        call.out.remark(f"note: {note}")


def _section(call: Invocation, columns: list[Column], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        call.out.line()
        call.out.table(columns, rows)


def _moved(before: int, after: int, text: Callable[[int], str] = "{:,}".format) -> str:
    return text(before) if before == after else f"{text(before)} -> {text(after)}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _short(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"


def _show_drift(call: Invocation, found: VersionDiff) -> None:
    moved = [d for d in found.drift if call.verbose or d.distance >= _NOTEWORTHY]
    moved.sort(key=lambda each: -each.distance)
    columns = [Column("drift"), Column("feature"), Column("", right=True), Column("most in")]
    columns += [Column("before", wraps=True), Column("after", wraps=True)]
    rows = []
    for each in moved:
        names = [n for n in each.before if each.before[n] != each.after.get(n)]
        sides = (
            ", ".join(f"{n} {figure(side[n])}" for n in names if n in side)
            for side in (each.before, each.after)
        )
        rows.append((each.split, each.feature, f"{each.distance:.3f}", each.main, *sides))
    _section(call, columns, rows)
    if found.drift and not moved:
        call.out.line()
        most = max(each.distance for each in found.drift)
        call.out.line(f"No feature drifted: the most is {most:.3f} (of 1).")


def _show_examples(call: Invocation, found: ExampleDiff) -> None:
    by = f"by {found.key}" if found.key else "by content"
    names = ("added", "removed", "changed", "same")
    columns = [Column(f"examples, {by}"), *(Column(name, right=True) for name in names)]
    keyed = found.key is not None
    if not keyed:
        columns.pop(3)
    rows = [
        (
            each.split,
            *(f"{getattr(each, name):,}" for name in names if keyed or name != "changed"),
        )
        for each in found.splits
    ]
    _section(call, columns, rows)
    for each in found.splits:
        if any(each.repeated):
            before, after = each.repeated
            call.out.line(
                f"{each.split}: {before:,} examples before and {after:,} after share their "
                f"{found.key} with another one."
            )
        if each.fields:
            counts = ", ".join(f"{name} {count:,}" for name, count in each.fields.items())
            call.out.line(f"{each.split}: changed in {counts}")
        _show_samples(call, each)


def _show_samples(call: Invocation, each: SplitExamples) -> None:
    for word, examples in (("added", each.added_samples), ("removed", each.removed_samples)):
        for example in examples:
            call.out.line()
            rows = [(name, _short(value)) for name, value in example.items()]
            call.out.table([Column(f"{each.split}: {word}"), Column("", wraps=True)], rows)
    for change in each.changed_samples:
        call.out.line()
        title = f"{each.split}: changed {_short(change['key'])}"
        columns = [Column(title), Column("before", wraps=True), Column("after", wraps=True)]
        moved = [(name, _short(old), _short(new)) for name, (old, new) in change["fields"].items()]
        call.out.table(columns, moved)
