"""From text to planned instances, by all the processes that are going to write them."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from provender.nlp.pretraining.files import Part, matched, parts_of
from provender.nlp.pretraining.options import Options
from provender.nlp.pretraining.running import check, refuse_single_document, refuse_too_short
from provender.nlp.pretraining.work import Work
from provender.nlp.recipes.text import VersionText
from provender.nlp.recipes.together import do_together
from provender.records.atomic import told_as_ours, write_json

_READY = "work.json"
_PARTS = "parts.json"
_STALE_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True)
class Preparation:
    """What is to be there before examples can be written: text tokenized, instances planned.

    Attributes:
        folder: shared by the processes; named by the engine after all that counts.
        options: how instances are made.
        text: a version's, or names of files.
    """

    folder: Path
    options: Options
    text: VersionText | Sequence[str]

    @property
    def size(self) -> int:
        """Bytes of the text, roughly."""
        if isinstance(self.text, VersionText):
            return self.text.size
        return sum(each.size for each in matched(self.text))

    def check(self) -> None:
        """Refuses text and vocabulary that cannot serve, before anything is made.

        Raises:
            ProvenderError: as `VersionText.check` and `provender.nlp.pretraining.running.check`.
        """
        if isinstance(self.text, VersionText):
            self.text.check()
        check(self.options)

    def work(self) -> Work:
        """The work folder with all that shards are written from.

        Does what is missing of it, together with whoever else needs it.

        Raises:
            InputError: the text is empty, too short or no UTF-8.
            StoreError: a file cannot be read or written.
        """
        work = Work(self.folder, self.options, 1)
        if (self.folder / _READY).exists():
            return work
        work.make_folders()
        _sweep(self.folder)
        for name in ("locks", "text"):
            with told_as_ours(self.folder / name):
                (self.folder / name).mkdir(exist_ok=True)
        parts = [Part(**each) for each in self._parts()]
        # Once joined, the token files of parts are gone.
        self._together(
            "tokenize",
            [
                (
                    lambda i=i: work.is_joined or work.part(i).exists(),
                    partial(work.run, {"step": "tokenize", "number": i, "part": asdict(part)}),
                )
                for i, part in enumerate(parts)
            ],
        )
        self._together("join", [(lambda: work.is_joined, partial(self._join, work, len(parts)))])
        refuse_single_document(work, "text")
        self._together(
            "plan",
            [
                (work.plan(i).exists, partial(work.run, {"step": "plan", "number": i}))
                for i in range(len(work.tasks))
            ],
        )
        refuse_too_short(work, "text")
        write_json(self.folder / _READY, work.to_json())
        return work

    def _together(self, step: str, pieces: Sequence[Any]) -> None:
        do_together(self.folder / "locks", step, pieces)

    def _parts(self) -> list[dict[str, Any]]:
        """The parts of the text that are tokenized apart; the text lies in files then."""
        file = self.folder / _PARTS
        if isinstance(self.text, VersionText):
            pieces = [
                (lambda i=i: file.exists() or self._text(i).exists(), partial(self._write, i))
                for i in range(len(self.text.files))
            ]
            self._together("text", pieces)
        self._together("parts", [(file.exists, partial(self._divide, file))])
        found: list[dict[str, Any]] = json.loads(file.read_bytes())
        return found

    def _divide(self, file: Path) -> None:
        if isinstance(self.text, VersionText):
            names = [str(self._text(i)) for i in range(len(self.text.files))]
        else:
            names = list(self.text)
        sizes = Work(self.folder, self.options, 1).sizes
        write_json(file, [asdict(each) for each in parts_of(matched(names), sizes.part)])

    def _write(self, number: int) -> None:
        if isinstance(self.text, VersionText):
            self.text.write(number, self._text(number))

    def _text(self, number: int) -> Path:
        return self.folder / "text" / f"{number:06d}"

    def _join(self, work: Work, parts: int) -> None:
        work.join(parts)
        for name in ("parts", "text"):
            shutil.rmtree(self.folder / name, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Removes what builds that were given up a week ago left."""
    for each in folder.parent.iterdir():
        with suppress(OSError):
            if each != folder and time.time() - each.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(each, ignore_errors=True)
