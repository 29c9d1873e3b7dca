"""What making BERT pretraining data costs: `provender nlp create-pretraining-data` beside TF-NLP's script.

The same 10 MB of English, the same vocabulary of 8,192 tokens, sequences of 128 tokens: passes 2 and
10, masking tokens, words, and runs of up to 3 words. Each run is a program of its own, start
included; CPU seconds of all its processes, wall seconds, and the peak memory of the largest one,
median of the rounds, taken in turn. Then memory alone: 10 MB and 200 MB of text.

    python benchmarks/pretraining_data.py --documentation /usr/share/doc \\
        --peer-python /path/to/venv/bin/python

The peer is `official.nlp.data.create_pretraining_data` of tf-models-official 2.20, which needs an
environment of its own (with setuptools < 81). Text: the paragraphs of the HTML and POD files below a
folder, such as the unpacked packages python3.11-doc, postgresql-doc-15, git-doc, linux-doc-6.1,
perl-doc ... of Debian 12; without one, the help texts that Python ships, again and again with other
borders of documents.
"""

from __future__ import annotations

import argparse
import html
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PARAGRAPH = re.compile(r"<p[ >].*?</p>", re.S | re.I)
_TAG = re.compile(r"<[^>]+>")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
WAYS = {
    "tokens": (),
    "words": ("--do_whole_word_mask=True",),
    "runs of 3": ("--do_whole_word_mask=True", "--max_ngram_size=3"),
}
CASES = [(2, "tokens"), (10, "tokens"), (2, "words"), (2, "runs of 3")]


@dataclass(frozen=True)
class Run:
    """What one run took: CPU seconds, wall seconds, and MiB of its largest process."""

    cpu: float
    wall: float
    memory: float


def documentation(folder: Path) -> list[list[str]]:
    """Documents of sentences: each file's paragraphs that no file before it had."""
    seen: set[str] = set()
    documents = []
    found = (each for kind in ("*.html", "*.pod") for each in sorted(folder.rglob(kind)))
    files = [each for each in found if each.is_file()]
    for file in files:
        text = file.read_text(errors="ignore")
        if file.suffix == ".html":
            paragraphs = [html.unescape(_TAG.sub(" ", each)) for each in _PARAGRAPH.findall(text)]
        else:
            paragraphs = [each for each in text.split("\n\n") if each and each[0] not in " ="]
        lines = []
        for each in paragraphs:
            paragraph = " ".join(each.split())
            english = sum(map(str.isascii, paragraph)) > 0.95 * len(paragraph)
            if len(paragraph) >= 40 and english and paragraph not in seen:
                seen.add(paragraph)
                lines += _SENTENCE.split(paragraph)
        if lines:
            documents.append(lines)
    return documents


def help_texts() -> list[list[str]]:
    """Documents of Python's own help."""
    import pydoc_data.topics as pages

    return [
        [" ".join(each.split()) for each in page.split("\n\n") if each.strip()]
        for _, page in sorted(pages.topics.items())
    ]


def write_text(documents: list[list[str]], size: int, file: Path) -> None:
    """Writes so many bytes: all documents in random order, then again with other borders."""
    rng = random.Random(1)
    with file.open("w", encoding="utf-8") as out:
        for document in _endless(documents, rng):
            text = "\n".join(document) + "\n\n"
            size -= len(text.encode())
            out.write(text)
            if size <= 0:
                return


def _endless(documents: list[list[str]], rng: random.Random) -> Iterator[list[str]]:
    order = list(documents)
    rng.shuffle(order)
    yield from order
    while True:
        rng.shuffle(order)
        for first, second in zip(order[::2], order[1::2], strict=False):
            cut = rng.randrange(len(first)), rng.randrange(len(second))
            yield from (each for each in (first[cut[0] :] + second[: cut[1]],) if each)


def run(command: list[str], log: Path) -> Run:
    """Runs a program and says what it took."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    start = time.perf_counter()
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdout=errors, stderr=errors, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}\n{log.read_text()[-3000:]}")
    wall = time.perf_counter() - start
    return Run(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


def command_of(
    python: str, module: str, text: Path, work: Path, passes: int, way: str
) -> list[str]:
    """The command line, which is the same for both."""
    return [
        *(python, "-m", module),
        f"--input_file={text}",
        f"--output_file={work / 'out.tfrecord'}",
        f"--vocab_file={work / 'vocab.txt'}",
        f"--dupe_factor={passes}",
        *WAYS[way],
    ]


def median(runs: list[Run]) -> Run:
    """The median of each figure."""
    figures = ("cpu", "wall", "memory")
    return Run(*(statistics.median(getattr(each, f) for each in runs) for f in figures))


def main() -> None:
    """Makes text and vocabulary, runs both programs in turn, and prints tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peer-python", help="Python that has tf-models-official")
    parser.add_argument("--documentation", type=Path, help="folder of HTML and POD files")
    parser.add_argument("--megabytes", type=int, default=10)
    parser.add_argument(
        "--large", type=int, default=200, help="megabytes of the memory test; 0: none"
    )
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    documents = documentation(args.documentation) if args.documentation else help_texts()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        text = work / "text.txt"
        write_text(documents, args.megabytes * 1_000_000, text)
        program = [sys.executable, "-c", "from provender.cli import main; main()"]
        train = ["nlp", "train-vocab", f"--input-file={text}", "--size=8192", "-q"]
        subprocess.run(
            [*program, *train, f"--output-file={work / 'vocab.txt'}"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        compare(args, work, text)
        if args.large:
            grow(args, work, text, documents)


def compare(args: argparse.Namespace, work: Path, text: Path) -> None:
    """CPU and memory beside the peer's."""
    ours_module = "provender.nlp.create_pretraining_data"
    programs = {
        "ours": (sys.executable, ours_module, ["--workers=1"]),
        "ours, 2 processes": (sys.executable, ours_module, ["--workers=2"]),
    }
    if args.peer_python:
        module = "official.nlp.data.create_pretraining_data"
        programs["TF-NLP's script"] = (args.peer_python, module, [])
    print(f"{text.stat().st_size / 1e6:.1f} MB of text, median of {args.rounds}")
    print(f"{'':10}{'masking':12}{'':20}{'CPU s':>8}{'wall s':>8}{'MiB':>8}{'CPU':>8}{'wall':>8}")
    for passes, way in CASES:
        runs: dict[str, list[Run]] = {name: [] for name in programs}
        for _ in range(args.rounds):
            for name, (python, module, more) in programs.items():
                line = command_of(python, module, text, work, passes, way)
                runs[name].append(run([*line, *more], work / "log"))
        ours = median(runs["ours"])
        for name, each in runs.items():
            took = median(each)
            figures = f"{took.cpu:8.2f}{took.wall:8.2f}{took.memory:8.0f}"
            ratios = f"{took.cpu / ours.cpu:7.1f}x{took.wall / ours.wall:7.1f}x"
            print(f"passes {passes:<3}{way:12}{name:20}{figures}{ratios}", flush=True)


def grow(args: argparse.Namespace, work: Path, text: Path, documents: list[list[str]]) -> None:
    """Memory for more passes and for more text."""
    large = work / "large.txt"
    write_text(documents, args.large * 1_000_000, large)
    print(f"\n{'text':>10}{'passes':>8}{'CPU s':>8}{'MiB':>8}")
    for each, passes in ((text, 2), (text, 10), (large, 1), (large, 2)):
        line = command_of(
            sys.executable, "provender.nlp.create_pretraining_data", each, work, passes, "tokens"
        )
        took = run([*line, "--workers=1"], work / "log")
        size = f"{each.stat().st_size / 1e6:.0f} MB"
        print(f"{size:>10}{passes:>8}{took.cpu:8.2f}{took.memory:8.0f}", flush=True)


if __name__ == "__main__":
    main()
