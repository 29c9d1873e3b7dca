"""What is to be made: the flags of the published script, under their names, checked."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from provender.errors import SettingsError

MARKS = 3
"""reuse | A [SEP] B [SEP] [CLS]: tokens of a record that are not text."""


OF_FILES = ("save_dir", "prefix", "suffix", "task_id", "num_tasks")
"""Options that say where the script's files go, and who makes which."""


@dataclass(frozen=True)
class Options:
    """How records are made. Two equal ones make the same bytes of the same text.

    Attributes:
        seq_length: tokens of a record.
        reuse_length: tokens at its begin that come from the row alone and are seen again in memory;
            0 for none.
        save_dir: folder of the files.
        sp_model_file: SentencePiece's model, with the pieces <cls>, <sep> and <eod>.
        use_eod_token: put <eod> after each document.
        bi_data: half of the rows of a batch are backwards.
        do_lower_case: lower case text. Accents vanish in any case.
        per_host_batch_size: rows of a batch.
        num_cores_per_host: a batch is dealt to so many cores, equally.
        prefix: of the files' names.
        suffix: of the files' names.
        task_id: number of this task, of ``num_tasks`` that share the input files.
        num_tasks: tasks.
        num_passes: passes over the text, each with the files in another order and other segments.
        random_seed: of all choices.

    Raises:
        SettingsError: a value makes no sense, by itself or beside another.
    """

    seq_length: int = 512
    reuse_length: int = 256
    save_dir: str | None = None
    sp_model_file: str = ""
    use_eod_token: bool = True
    bi_data: bool = True
    do_lower_case: bool = True
    per_host_batch_size: int = 32
    num_cores_per_host: int = 16
    prefix: str = ""
    suffix: str = ""
    task_id: int | None = None
    num_tasks: int | None = None
    num_passes: int = 1
    random_seed: int = 0

    def __post_init__(self) -> None:
        if not self.save_dir:
            raise _wrong("save_dir", "is not given", "It is the folder of the files.")
        if not self.sp_model_file:
            raise _wrong("sp_model_file", "is not given", "XLNet's text is SentencePiece.")
        if self.reuse_length < 0 or self.seq_length - self.reuse_length < MARKS + 2:
            raise _wrong(
                "reuse_length",
                f"is {self.reuse_length}, and --seq_length {self.seq_length}",
                f"Two segments and {MARKS} marks need {MARKS + 2} tokens besides it.",
            )
        cores = self.num_cores_per_host * (2 if self.bi_data else 1)
        if self.num_cores_per_host < 1 or self.per_host_batch_size < 1:
            raise _wrong("per_host_batch_size", "and --num_cores_per_host begin at 1", "")
        if self.per_host_batch_size % cores:
            both = ", and half of each core's rows are backwards" if self.bi_data else ""
            raise _wrong(
                "per_host_batch_size",
                f"is {self.per_host_batch_size}, which {self.num_cores_per_host} cores cannot "
                f"share{both}",
                f"Use a multiple of {cores}, or another --num_cores_per_host.",
            )
        if self.num_passes < 1:
            raise _wrong("num_passes", f"is {self.num_passes}", "Use 1 or more.")
        if (self.task_id is None) != (self.num_tasks is None):
            raise _wrong("task_id", "and --num_tasks go together", "Give both or neither.")
        if self.task_id is not None and not 0 <= self.task_id < (self.num_tasks or 0):
            raise _wrong(
                "task_id", f"is {self.task_id}, of {self.num_tasks} tasks", "It counts from 0."
            )

    @property
    def room(self) -> int:
        """Tokens of A and B together."""
        return self.seq_length - self.reuse_length - MARKS

    @property
    def stride(self) -> int:
        """Tokens from one record of a row to the next."""
        return self.reuse_length or self.room

    @property
    def directed(self) -> int:
        """Rows of a batch that run forwards."""
        return self.per_host_batch_size // (2 if self.bi_data else 1)

    @property
    def name(self) -> str:
        """Name of the files, without their number."""
        parts = [
            self.prefix,
            f"seqlen-{self.seq_length}",
            f"reuse-{self.reuse_length}" if self.reuse_length else "memless",
            f"bs-{self.per_host_batch_size}",
            f"cores-{self.num_cores_per_host}",
            "uncased" if self.do_lower_case else "cased",
            "eod" if self.use_eod_token else "",
            "bi" if self.bi_data else "uni",
            self.suffix,
        ]
        return "_".join(filter(None, parts)) + ".tfrecord"

    def file(self, number: int) -> Path:
        """Where the records of a pass go; it is numbered where there are several."""
        folder = Path(self.save_dir or "")
        if self.task_id is None and self.num_passes == 1:
            return folder / self.name
        shard = (self.task_id or 0) * self.num_passes + number
        return folder / f"{self.name}-{shard}-of-{(self.num_tasks or 1) * self.num_passes}"

    def meaning(self) -> dict[str, Any]:
        """What of the options decides on the bytes of records, whatever files are called."""
        places = ("save_dir", "sp_model_file", "prefix", "suffix")
        return {name: value for name, value in asdict(self).items() if name not in places}


def _wrong(name: str, what: str, hint: str) -> SettingsError:
    return SettingsError(f"--{name} {what}.", where=f"--{name}", hint=hint or None)
