"""What making BERT pretraining data costs: `provender nlp create-pretraining-data` beside TF-NLP's script.

The same 10 MB of English, the same vocabulary of 8,192 tokens, sequences of 128 tokens: passes 2 and
10, masking tokens, words, and runs of up to 3 words. Each run is a program of its own, start
included; CPU seconds of all its processes, wall seconds, and the peak memory of the largest one and of
all together (their proportional set sizes, looked at ten times a second), median of the rounds, taken
in turn. Then memory alone: 10 MB and 200 MB of text, passes 2 and 10, each masking, 1 and 2 processes.

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
import threading
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
    """What one run took: CPU seconds, wall seconds, and MiB of its largest process and of all of them."""

    cpu: float
    wall: float
    memory: float
    together: float


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
        ended = threading.Event()
        peaks = [0.0, 0.0]
        watch = threading.Thread(target=_watch, args=(process.pid, ended, peaks))
        watch.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        ended.set()
        watch.join()
    if status:
        raise SystemExit(f"{' '.join(command)}\n{log.read_text()[-3000:]}")
    return Run(usage.ru_utime + usage.ru_stime, wall, *peaks)


def _watch(pid: int, ended: threading.Event, peaks: list[float]) -> None:
    """Notes the peaks of the largest of a process and those that it started, and of all, in MiB.

    What `wait4` says of memory begins with this program's own at the fork.
    """
    while not ended.wait(0.1):
        family = _family(pid)
        largest = max(_kilobytes(each, "status", "VmHWM:") for each in family)
        together = sum(_kilobytes(each, "smaps_rollup", "Pss:") for each in family)
        peaks[0] = max(peaks[0], largest / 1024)
        peaks[1] = max(peaks[1], together / 1024)


def _family(pid: int) -> list[int]:
    found = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += _family(int(child))
    except OSError:
        pass  # It has ended.
    return found


def _kilobytes(pid: int, name: str, line: str) -> int:
    try:
        text = Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return 0
    return sum(int(each.split()[1]) for each in text.splitlines() if each.startswith(line))


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
    figures = ("cpu", "wall", "memory", "together")
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
    head = ("CPU s", "wall s", "MiB", "all", "CPU", "wall")
    print(f"{'':10}{'masking':12}{'':20}{''.join(f'{each:>8}' for each in head)}")
    for passes, way in CASES:
        runs: dict[str, list[Run]] = {name: [] for name in programs}
        for _ in range(args.rounds):
            for name, (python, module, more) in programs.items():
                line = command_of(python, module, text, work, passes, way)
                runs[name].append(run([*line, *more], work / "log"))
        ours = median(runs["ours"])
        for name, each in runs.items():
            took = median(each)
            figures = f"{took.cpu:8.2f}{took.wall:8.2f}{took.memory:8.0f}{took.together:8.0f}"
            ratios = f"{took.cpu / ours.cpu:7.1f}x{took.wall / ours.wall:7.1f}x"
            print(f"passes {passes:<3}{way:12}{name:20}{figures}{ratios}", flush=True)


def grow(args: argparse.Namespace, work: Path, text: Path, documents: list[list[str]]) -> None:
    """Memory for more passes and for more text."""
    large = work / "large.txt"
    write_text(documents, args.large * 1_000_000, large)
    head = ("text", "passes", "masking", "workers", "CPU s", "wall s", "MiB", "all")
    print("\n" + "".join(f"{each:>10}" for each in head))
    cases = [(each, passes, "tokens", 1) for each in (text, large) for passes in (2, 10)]
    cases += [(large, 10, "tokens", 2)]
    cases += [(large, 2, way, 1) for way in ("words", "runs of 3")]
    for each, passes, way, workers in cases:
        line = command_of(
            sys.executable, "provender.nlp.create_pretraining_data", each, work, passes, way
        )
        took = run([*line, f"--workers={workers}"], work / "log")
        size = f"{each.stat().st_size / 1e6:.0f} MB"
        figures = f"{took.cpu:10.2f}{took.wall:10.2f}{took.memory:10.0f}{took.together:10.0f}"
        print(f"{size:>10}{passes:>10}{way:>10}{workers:>10}{figures}", flush=True)


if __name__ == "__main__":
    main()
