"""Files that several tests read; written once a session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.nlp.loaders import records


@dataclass(frozen=True)
class Files:
    """Paths of one file of each kind."""

    folder: Path
    pretraining: str
    pretraining_v2: str
    pretraining_gzip: str
    labelled: str
    tagged: str
    texts: str
    xlnet: str
    vocabulary: str
    sentencepiece: str


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("loaders")
    return Files(
        folder=folder,
        pretraining=records.write(folder / "pretraining", records.pretraining()),
        pretraining_v2=records.write(folder / "v2", records.pretraining(v2=True)),
        pretraining_gzip=records.write(folder / "gz", records.pretraining(), gzip=True),
        labelled=records.write(folder / "labelled", records.labelled()),
        tagged=records.write(folder / "tagged", records.tagged()),
        texts=records.write(folder / "texts", records.texts()),
        xlnet=records.write(folder / "xlnet", records.xlnet()),
        vocabulary=records.vocabulary(folder / "vocab.txt"),
        sentencepiece=records.sentencepiece(
            folder / "sentencepiece", pad_id=0, eos_id=1, unk_id=2, bos_id=-1
        ),
    )
