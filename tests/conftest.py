"""What holds for every test."""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

# Read by gcsfs when it is imported: without it every call to a local GCS server first waits for a
# storage-layout request over TLS that no such server answers.
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")

# Tests say what is right, not how fast it is: a busy machine fails none of them.
hypothesis.settings.register_profile("provender", deadline=None)
hypothesis.settings.load_profile("provender")

# Folders, relative to this one, with files of few tests that take a minute.
LONG = ("orchestration/airflow_e2e", "docs", "orchestration", "e2e")


def pytest_configure(config: pytest.Config) -> None:
    """Files are given to workers in the order of collection.

    By itself `--dist loadfile` begins with the files of most tests; those that start servers have
    one or two, so one worker was left with a minute of them when the other had nothing to do.
    """
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first, and short files even out the end."""
    here = Path(__file__).parent

    def rank(item: pytest.Item) -> int:
        folder = f"{item.path.relative_to(here).parent.as_posix()}/"
        return next((i for i, each in enumerate(LONG) if folder.startswith(f"{each}/")), len(LONG))

    items.sort(key=rank)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leaves what collecting made, which lives as long as the session, out of garbage collection.

    A worker holds the tests of all folders and the libraries they import: looking through them
    again and again was a tenth of its time. The threshold is that of the command line.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """The libraries that a file of tests was the first to import are left out too."""
    yield
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session")
def beam_python() -> str:
    """A Python that has Apache Beam: `make beam-env` sets one up."""
    own = Path(__file__).resolve().parents[1] / ".venv-beam" / "bin" / "python"
    python = os.environ.get("PROVENDER_TEST_BEAM_PYTHON") or str(own)
    if not Path(python).exists():
        pytest.skip("no Python with Apache Beam: `make beam-env`, or PROVENDER_TEST_BEAM_PYTHON")
    return python


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)], capture_output=True
    ).returncode:
        pytest.skip("mounting needs root; the limit on file sizes is tested instead")
    yield folder
    # Lazily: a process that is tested may still hold files open.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
