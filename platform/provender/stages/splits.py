"""The splits stage: the plan of all splits as data, with nothing generated yet."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.builders.arguments import NotPlainError, content, encode
from provender.builders.capture import Call
from provender.builders.load import SHARDS
from provender.errors import SplitError
from provender.fingerprint import Hasher, Tree, combine
from provender.stages import download
from provender.stages.site import Progress, Workplace

if TYPE_CHECKING:
    from provender.builders.facts import BuilderFacts

KEY = "splits"
_NAME = re.compile(r"[\w-]+")


def tree(
    facts: BuilderFacts,
    plan_method: str,
    records: list[dict[str, Any]],
    manual: Mapping[str, Any] | None,
) -> Tree:
    """The stage's fingerprint: the planning code and the bytes it plans with."""
    return combine(
        KEY,
        {
            "code": facts.code[plan_method],
            "setting": facts.setting,
            "inputs": inputs(records, manual),
        },
    )


def inputs(records: list[dict[str, Any]], manual: Mapping[str, Any] | None) -> Tree:
    """All bytes from outside, by content."""
    return combine(
        "inputs",
        {
            **{f"download {each['url']}": each["sha256"] for each in records},
            **{f"manual file {name}": each["sha256"] for name, each in (manual or {}).items()},
        },
    )


def check_name(name: str) -> None:
    """Refuses a split name that TFDS could write but not read.

    Raises:
        SplitError: the name is reserved, or is not made of letters, digits, ``_`` and ``-``.
    """
    if name == "all":
        raise SplitError(
            "A split cannot be named 'all': it stands for every split when reading.",
            where="split all",
            hint="Name it after what is in it.",
        )
    if not _NAME.fullmatch(name):
        raise SplitError(
            f"A split cannot be named {name!r}.",
            where=f"split {name}",
            hint="Use letters, digits, '_' and '-' only: "
            f"{re.sub(r'[^0-9A-Za-z_-]+', '_', name)!r} would do.",
        )


def run(work: Workplace, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Plans the splits offline, on the recorded downloads.

    Args:
        work: the place of work.
        args: ``records`` of the download stage, ``manual`` files of the manual stage.
        progress: not told anything; planning is short.

    Returns:
        ``splits``: split name -> ``function``, ``arguments`` (fingerprint tree), ``replay``
        (whether the plan must be made again to generate) and ``shards`` (ShardBasedBuilder);
        ``plan``: store path of the encoded arguments; ``outside``: absolute path -> content
        identity of what the arguments name outside the store and manual_dir.
    """
    from provender.builders.download import DownloadManager

    recorded = DownloadManager.records_from_json(args["records"])
    before = dict(vars(work.afresh().builder))
    with work.download_manager(recorded=recorded, online=False) as manager:
        found = download.plan(work, manager)
    for name in found:
        check_name(name)
    if work.loaded.kind == SHARDS:
        counts = {name: {"shards": len(each)} for name, each in found.items()}
        return {"splits": counts, "plan": None, "outside": {}}
    stateful = _changed(before, vars(work.loaded.builder))
    identify = _identify(args.get("manual") or {})
    outside: dict[str, Any] = {}
    splits, plans = {}, {}
    for name, call in found.items():
        splits[name], plans[name] = _describe(work, call, identify, outside, stateful)
    data = json.dumps(plans, sort_keys=True, ensure_ascii=False).encode()
    digest = hashlib.sha256(data).hexdigest()
    rel = f"objects/{digest[:2]}/{digest}/plan.json"
    work.store.write(rel, data)
    return {"splits": splits, "plan": rel, "outside": outside}


def _changed(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether planning left something on the builder that generating may read."""
    return before.keys() != after.keys() or any(before[k] is not after[k] for k in before)


def _describe(
    work: Workplace,
    call: Call,
    identify: Callable[[str, str], Any],
    outside: dict[str, Any],
    stateful: bool,
) -> tuple[dict[str, Any], Any]:
    def look(path: str) -> Any:
        if path not in outside and (found := identity_of(path, _sha256)) is not None:
            outside[path] = found
        return outside.get(path)

    call = _named(work, call)
    try:
        encoded = encode({"args": list(call.args), "kwargs": dict(call.kwargs)}, work.roots)
    except NotPlainError:
        encoded = None
    replay = stateful or encoded is None or call.function is None
    about: dict[str, Any] = {"function": call.function, "replay": replay, "arguments": None}
    if encoded is not None:
        named = {f"argument {i}": each for i, each in enumerate(encoded["args"])}
        named.update({f"argument {name}": each for name, each in encoded["kwargs"].items()})
        about["arguments"] = combine(
            "arguments",
            {name: _leaf(name, content(doc, identify, look)) for name, doc in named.items()},
        ).to_json()
    return about, encoded


def _named(work: Workplace, call: Call) -> Call:
    """The call with its arguments by name, where the method's signature gives them one each."""
    if call.function is None:
        return call
    signature = inspect.signature(getattr(work.loaded.builder, call.function))
    if any(p.kind is not p.POSITIONAL_OR_KEYWORD for p in signature.parameters.values()):
        return call
    try:
        return Call(call.function, (), signature.bind(*call.args, **call.kwargs).arguments)
    except TypeError:
        return call


def _leaf(name: str, value: Any) -> Tree:
    """One digest for a whole argument: a tree of 200,000 ids would help nobody."""
    if isinstance(value, dict) and isinstance(value.get("$content"), str):
        text = f"content {value['$content'][:16]}"
    else:
        text = json.dumps(value, ensure_ascii=False)
    if len(text) > 120:
        text = f"{text[:100]}… ({len(value) if hasattr(value, '__len__') else len(text)} items)"
    return Tree(name=name, kind="argument", digest=Hasher.hash(value), value=text, children=())


def _identify(manual: Mapping[str, Any]) -> Callable[[str, str], Any]:
    def identity(root: str, path: str) -> Any:
        if root == "objects":
            return path.split("/")[1] if path.count("/") >= 2 else path
        if root != "manual":
            return path
        below = {n: f["sha256"] for n, f in manual.items() if _is_below(n, path)}
        return below.get(path) or below

    return identity


def _is_below(name: str, folder: str) -> bool:
    return not folder or name == folder or name.startswith(f"{folder}/")


def identity_of(path: str, sha256: Callable[[Path], str]) -> Any:
    """Content identity of a file or folder that no download or manual file accounts for.

    Args:
        path: absolute path.
        sha256: digest of one file's content.

    Returns:
        The file's digest, relative path -> digest for a folder, or None if nothing is there.
    """
    place = Path(path)
    try:
        if place.is_file():
            return sha256(place)
        if place.is_dir():
            files = sorted(p for p in place.rglob("*") if p.is_file())
            return {str(p.relative_to(place)): sha256(p) for p in files}
    except OSError:
        return None
    return None


def changed_outside(
    result: Mapping[str, Any], sha256: Callable[[Path], str]
) -> list[dict[str, Any]]:
    """One reason for each path outside the store whose content is not what was planned with.

    Args:
        result: the stage's recorded result.
        sha256: digest of one file's content, best one that remembers unchanged files.
    """
    found = []
    for path, old in result.get("outside", {}).items():
        new = identity_of(path, sha256)
        if new != old:
            found.append(
                {
                    "kind": "changed",
                    "path": [f"file {path}"],
                    "old": _brief(old),
                    "new": _brief(new),
                }
            )
    return found


def _brief(identity: Any) -> str | None:
    if identity is None or isinstance(identity, str):
        return identity
    return f"{len(identity)} files, {Hasher.hash(identity)[:16]}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
