"""Decide first, act after: which stages are hits, which must run, and why.

Nothing here changes anything but the memory of file identities, and nothing imports the builder:
a plan is made from `BuilderFacts`, the catalog and a look at the store. Reasons are data:

    {"kind": "first"}                                   never run before
    {"kind": "changed", "path": [...], "old", "new"}    a named part of the fingerprint
    {"kind": "upstream", "path": [...], "old", "new"}   a URL names other bytes now
    {"kind": "missing" | "damaged", "what", ...}        an artifact is not what was recorded
    {"kind": "failed" | "unfinished" | "forced"}        the last try, or the user
    {"kind": "waits", "on"}                             its inputs are not known yet
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from provender.builders.load import OPAQUE, SHARDS
from provender.catalog import StageRecord, VersionRecord
from provender.engine import proof
from provender.engine.conflict import (
    find_conflict,
    published_version,
    retracted_content,
)
from provender.engine.plan import HIT, RUN, WAIT, Plan, Step
from provender.engine.session import Session
from provender.fingerprint import Hasher, Tree
from provender.stages import (
    beam,
    download,
    examples,
    manual,
    prepare,
    register,
    shards,
    splits,
    steps,
)

MAX_REASONS = 20
"""Reasons kept for one stage; a changed file list could give thousands."""


def decide(session: Session) -> Plan:
    """Works out the whole plan as far as it can be known now.

    Args:
        session: the build.

    Returns:
        The plan. Its conflict, if any, is not raised here: `provender plan` shows it.

    Raises:
        ManualFilesMissing: files that people must provide are not there.
    """
    return _Decider(session).plan()


class _Decider:
    """The forward pass, from inputs to the version, and the proofs backwards."""

    def __init__(self, session: Session) -> None:
        self.s = session
        self.steps: dict[str, Step] = {}
        self._last: dict[str, StageRecord] | None = None
        self.published: VersionRecord | None = None
        if not session.options.is_trial:
            self.published = published_version(session)

    def plan(self) -> Plan:
        files = self._manual()
        if self.s.facts.kind == OPAQUE:
            finished = self._prepare(files)
        else:
            finished = self._splits(files, self._download(files))
        if finished is not None:
            self._register(finished)
        else:
            self._wait(register.KEY, "register", list(self.steps))
        version = proof.prove(self.s, self.steps, finished)
        steps = tuple(self.steps.values())
        conflict = find_conflict(self.s, steps, self.published)
        if version is None and conflict is None:
            conflict = retracted_content(self.s, self.steps[register.KEY])
        return Plan(steps, version, conflict)

    # -- single steps -------------------------------------------------------------------------

    def _known(self, trees: Mapping[str, Tree]) -> dict[str, StageRecord]:
        return self.s.catalog.find_stages([tree.digest for tree in trees.values()])

    def _add(
        self,
        key: str,
        op: str,
        tree: Tree,
        args: Mapping[str, Any],
        *,
        record: StageRecord | None = None,
        inputs: Sequence[str] = (),
        also: Sequence[Mapping[str, Any]] = (),
    ) -> Step:
        """Adds a step whose fingerprint is known: a hit if memory has it and nothing forces it."""
        record = record or self.s.catalog.find_stage(tree.digest)
        if self._is_forced(key):
            also = [{"kind": "forced"}, *also]
        state = HIT if record and not also else RUN
        reasons = () if state == HIT else tuple(also) or self._why(key, tree)
        step = Step(key, op, state, tree, reasons[:MAX_REASONS], record, args, tuple(inputs))
        self.steps[key] = step
        return step

    def _wait(self, key: str, op: str, on: Sequence[str]) -> Step:
        blocking = [each for each in on if self.steps[each].state != HIT]
        reason = {"kind": "waits", "on": ", ".join(blocking[:3]) + ("…" if blocking[3:] else "")}
        self.steps[key] = Step(key, op, WAIT, reasons=(reason,))
        return self.steps[key]

    def _is_forced(self, key: str) -> bool:
        if key in self.s.forced:
            return False
        return any(
            force == "all" or key == force or key.startswith(f"{force}/")
            for force in self.s.options.force
        )

    def _why(self, key: str, tree: Tree) -> tuple[Mapping[str, Any], ...]:
        """What differs from the last execution of this stage, old value and new value."""
        if self._last is None:
            self._last = self.s.catalog.last_stages(self.s.facts.name, self.s.facts.config)
        last = self._last.get(key)
        if last is None:
            return ({"kind": "first"},)
        if last.fingerprint == tree.digest:
            if last.state == "failed":
                return ({"kind": "failed", "error": (last.error or {}).get("message", "")},)
            return ({"kind": "unfinished"},)
        old = self.s.catalog.tree(last.fingerprint)
        if old is None:
            return ({"kind": "first"},)
        changes = Hasher.explain(Tree.from_json(old), tree)
        return tuple(change.to_json() for change in changes) or ({"kind": "first"},)

    # -- stages -------------------------------------------------------------------------------

    def _manual(self) -> dict[str, Any] | None:
        facts = self.s.facts
        if not facts.manual:
            return None
        files = manual.look(facts, self.s.work.site.manual_dir, self.s.digests)
        tree = manual.tree(facts, files)
        digests = [each["sha256"] for each in files.values()]
        self._add(manual.KEY, "manual", tree, {"files": files}, inputs=digests)
        return files

    def _download(self, files: Mapping[str, Any] | None) -> list[dict[str, Any]] | None:
        """The download step; gives its records when it is a hit."""
        tree = download.tree(self.s.facts, self.s.plan_method, files)
        record = self.s.catalog.find_stage(tree.digest)
        records = list(record.result["records"]) if record else []
        moved: list[dict[str, Any]] = []
        if record and not self.s.offline:
            moved = download.changed_upstream(records, self.s.upstream)
        fresh = self._is_forced(download.KEY)
        args = {
            "recorded": [] if moved or fresh else records,
            "register": self.s.options.register_checksums,
            "force": fresh,
        }
        inputs = [each["sha256"] for each in (files or {}).values()]
        step = self._add(
            download.KEY, "download", tree, args, record=record, inputs=inputs, also=moved
        )
        return records if step.state == HIT else None

    def _splits(
        self, files: Mapping[str, Any] | None, records: list[dict[str, Any]] | None
    ) -> dict[str, list[Mapping[str, Any]]] | None:
        """Splits and all below; gives every split's shard results once all are known."""
        if records is None:
            self._wait(splits.KEY, "splits", [*self.steps])
            self._guess()
            return None
        facts, method = self.s.facts, self.s.plan_method
        tree = splits.tree(facts, method, records, files)
        record = self.s.catalog.find_stage(tree.digest)
        moved = splits.changed_outside(record.result, self.s.sha256) if record else []
        step = self._add(
            splits.KEY,
            "splits",
            tree,
            {"records": records, "manual": files},
            record=record,
            inputs=[each["sha256"] for each in records],
            also=moved,
        )
        if step.state != HIT or step.record is None:
            self._guess()
            return None
        outside = splits.inputs(records, files)
        if facts.kind == SHARDS:
            return self._iterators(step.record.result, records, outside)
        return self._examples(step.record.result, records, files, outside)

    def _guess(self) -> None:
        """Shows the stages of the last build as waiting, so that a plan is whole."""
        if self._last is None:
            self._last = self.s.catalog.last_stages(self.s.facts.name, self.s.facts.config)
        known = [
            k for k in self._last if k.startswith(("examples/", "shards/")) and "/part-" not in k
        ]
        own = [steps.key(step) for step in self.s.facts.steps]
        known = [*own, *sorted(set(known) - set(own))]
        usual = ["shards"] if own else ["examples", "shards"]
        for key in known if len(known) > len(own) else [*own, *usual]:
            self._wait(key, key.partition("/")[0], list(self.steps))

    def _examples(
        self,
        result: Mapping[str, Any],
        records: list[dict[str, Any]],
        files: Mapping[str, Any] | None,
        outside: Tree,
    ) -> dict[str, list[Mapping[str, Any]]] | None:
        facts = self.s.facts
        trees = {
            name: self._examples_tree(name, about, outside)
            for name, about in result["splits"].items()
        }
        known = self._known(trees)
        base = {"records": records, "manual": files, "plan": result["plan"]}
        inputs = [each["sha256"] for each in records]
        for name, tree in trees.items():
            args = {
                **base,
                "split": name,
                "about": result["splits"][name],
                "fingerprint": tree.digest,
                "in_order": facts.in_order,
                "max_examples": self.s.options.max_examples,
                "allow_empty": self.s.allow_empty,
            }
            op = "order"
            if self.s.with_beam:
                op, args["num_shards"] = "beam", self._requested(name)
            key = examples.key(name)
            self._add(key, op, tree, args, record=known.get(tree.digest), inputs=inputs)
        return self._shards(trees)

    def _examples_tree(self, split: str, about: Mapping[str, Any], outside: Tree) -> Tree:
        s = self.s
        args = (s.facts, split, about, outside, s.plan_method, s.options.max_examples)
        return beam.tree(*args, self._requested(split)) if s.with_beam else examples.tree(*args)

    def _requested(self, split: str) -> int | None:
        """Shards that a Beam pipeline is to cut: as asked for, else as the published version was."""
        if self.s.num_shards or self.published is None:
            return self.s.num_shards
        made = self.published.info.get("stages", {}).get(examples.key(split))
        record = self.s.catalog.find_stage(made) if made else None
        return record.result.get("requested") if record else None

    def _promised(self, split: str) -> int | None:
        """Shards that a split has in the published version of this number, if there is one.

        A plain build after `--num-shards 2` means the same version, not another layout of it.
        """
        for known in self.published.splits if self.published else ():
            if known.name == split:
                return known.shards
        return None

    def _shards(self, trees: Mapping[str, Tree]) -> dict[str, list[Mapping[str, Any]]] | None:
        facts = self.s.facts
        plans: dict[str, tuple[Tree, dict[str, Any], str]] = {}
        counts: dict[str, int] = {}
        for name in trees:
            above = self.steps[examples.key(name)]
            if above.state != HIT or above.record is None:
                continue
            result, pieces = above.record.result, above.record.result.get("pieces")
            counts[name] = (
                shards.count(result, self.s.num_shards or self._promised(name))
                if pieces is None
                else len(pieces)
            )
            for i in range(counts[name]):
                file = shards.file_name(facts, name, i, counts[name])
                tree = shards.tree(file, result["digest"], i, counts[name])
                args = {
                    "fingerprint": tree.digest,
                    "name": file,
                    "split": name,
                    "shard": i,
                    "shards": counts[name],
                }
                if pieces is None:
                    fingerprint = above.record.fingerprint
                    args |= {"examples": result, "examples_fingerprint": fingerprint}
                else:
                    args["piece"] = pieces[i]
                plans[shards.key(name, i)] = (tree, args, result["digest"])
        known = self._known({key: tree for key, (tree, _, _) in plans.items()})
        for name in trees:
            if name not in counts:
                self._wait(f"shards/{name}", "shard", [examples.key(name)])
                continue
            for i in range(counts[name]):
                key = shards.key(name, i)
                tree, args, content = plans[key]
                record = known.get(tree.digest)
                op = "piece" if "piece" in args else "shard"
                self._add(key, op, tree, args, record=record, inputs=[content])
        return self._finished({name: counts.get(name) for name in trees})

    def _iterators(
        self, result: Mapping[str, Any], records: list[dict[str, Any]], outside: Tree
    ) -> dict[str, list[Mapping[str, Any]]] | None:
        """Shards of a ShardBasedBuilder: they depend on the code, its inputs and its steps."""
        facts, limit = self.s.facts, self.s.options.max_examples
        made, contents = self._made(records, outside)
        if len(made) < len(facts.steps):
            above = [steps.key(step) for step in facts.steps]
            for name, about in result["splits"].items():
                for i in range(about["shards"]):
                    self._wait(shards.key(name, i), "iterator", above)
            return None
        plans = {}
        for name, about in result["splits"].items():
            count = about["shards"]
            for i in range(count):
                file = shards.file_name(facts, name, i, count)
                tree = shards.iterator_tree(
                    facts, self.s.plan_method, outside, file, i, count, limit, contents
                )
                args = {
                    "fingerprint": tree.digest,
                    "name": file,
                    "split": name,
                    "shard": i,
                    "shards": count,
                    "records": records,
                    "max_examples": limit,
                    "made": made,
                }
                plans[shards.key(name, i)] = (tree, args)
        known = self._known({key: tree for key, (tree, _) in plans.items()})
        inputs = [*(each["sha256"] for each in records), *contents.values()]
        for key, (tree, args) in plans.items():
            record = known.get(tree.digest)
            self._add(key, "iterator", tree, args, record=record, inputs=inputs)
        return self._finished({name: a["shards"] for name, a in result["splits"].items()})

    def _made(
        self, records: list[dict[str, Any]], outside: Tree
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """A builder's steps, each known once those before it are there.

        Returns:
            Step -> where it lies, and step -> digest of what it left, of those that are there.
        """
        made: dict[str, Any] = {}
        contents: dict[str, str] = {}
        names = list(self.s.facts.steps)
        for i, step in enumerate(names):
            key = steps.key(step)
            if len(made) < i:
                self._wait(key, "join", [steps.key(each) for each in names[:i]])
                continue
            tree = steps.tree(self.s.facts, step, outside, contents)
            args = {"step": step, "fingerprint": tree.digest, "made": dict(made)}
            inputs = [*(each["sha256"] for each in records), *contents.values()]
            added = self._add(key, "join", tree, args, inputs=inputs)
            if added.state == HIT and added.record is not None:
                result = added.record.result
                made[step] = {"fingerprint": tree.digest, "parts": result["parts"]}
                contents[step] = result["digest"]
        return made, contents

    def _finished(
        self, counts: Mapping[str, int | None]
    ) -> dict[str, list[Mapping[str, Any]]] | None:
        """Every split's shard results in order, or None while one is missing."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for name, count in counts.items():
            steps = [self.steps.get(shards.key(name, i)) for i in range(count or 0)]
            if not steps or any(s is None or s.state != HIT or not s.record for s in steps):
                return None
            found[name] = [shard_result(s.record) for s in steps if s and s.record]
        return found

    def _prepare(self, files: Mapping[str, Any] | None) -> dict[str, Any] | None:
        tree = prepare.tree(self.s.facts, files)
        args = {"fingerprint": tree.digest, "max_examples": self.s.options.max_examples}
        inputs = [each["sha256"] for each in (files or {}).values()]
        step = self._add(prepare.KEY, "prepare", tree, args, inputs=inputs)
        if step.state != HIT or step.record is None:
            return None
        files = {
            each.name: {**step.record.result["files"][each.name], "rel": each.uri}
            for each in step.record.outputs
        }
        return {**step.record.result, "files": files}

    def _register(self, finished: Mapping[str, Any]) -> Step:
        """The last step, once everything it joins is known."""
        s, trial = self.s, self.s.options.is_trial
        records = _records(self.steps, finished)
        size = sum(each["size"] for each in records)
        extra = {"download_size": size, "trial": s.options.max_examples or "all" if trial else None}
        args: dict[str, Any]
        if s.facts.kind == OPAQUE:
            tree = prepare.version_tree(s.facts, finished, extra)
            inputs = [each["sha256"] for each in finished["files"].values()]
            args = {"files": finished["files"], "prepared": finished["splits"]}
        else:
            tree = register.tree(s.facts, finished, extra)
            inputs = [each["sha256"] for files in finished.values() for each in files]
            kept = {name: self._statistics(name, files) for name, files in finished.items()}
            args = {
                "splits": dict(finished),
                "framed": s.facts.kind == SHARDS,
                "statistics": kept,
            }
        args |= {
            "fingerprint": tree.digest,
            "target": register.folder(s.facts, trial=trial, limit=s.options.max_examples),
            "download_size": size,
            "lineage": [{"url": each["url"], "sha256": each["sha256"]} for each in records],
        }
        return self._add(register.KEY, "register", tree, args, inputs=inputs)

    def _statistics(self, split: str, files: Sequence[Mapping[str, Any]]) -> list[str | None]:
        """Where the statistics of a split's pieces are kept; None for a piece without."""
        if self.s.facts.kind == SHARDS or self.s.with_beam:
            return [each.get("statistics") for each in files]
        above = self.steps[examples.key(split)].record
        return [above.result.get("statistics") if above else None]


def shard_result(record: StageRecord) -> dict[str, Any]:
    """A shard's result, with its files where they lie now (a published shard has moved)."""
    return {**record.result, "files": [each.uri for each in record.outputs]}


def _records(steps: Mapping[str, Step], finished: Mapping[str, Any]) -> list[dict[str, Any]]:
    step = steps.get(download.KEY)
    if step is not None and step.record is not None:
        return list(step.record.result["records"])
    return list(finished.get("records", []))
