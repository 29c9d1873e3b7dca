"""The small contract: three methods, each missing until it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow_datasets as tfds

from provender import builders
from provender.builders import DatasetBuilder, FileAdapterBuilder


class Bare(DatasetBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")


class Described(Bare, skip_registration=True):
    def _info(self) -> Any:
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict({"text": tfds.features.Text()})
        )


class Written(FileAdapterBuilder, skip_registration=True):
    """Writes one shard itself."""

    VERSION = tfds.core.Version("1.0.0")
    _info = Described._info

    def _download_and_prepare(self, dl_manager: Any, download_config: Any = None) -> None:
        from provender.records import frame

        template = tfds.core.ShardedFileTemplate(
            data_dir=self.data_path,
            dataset_name=self.name,
            split="train",
            filetype_suffix="tfrecord",
        )
        payloads = [self.info.features.serialize_example({"text": f"row {i}"}) for i in range(5)]
        Path(template.sharded_filepath(shard_index=0, num_shards=1)).write_bytes(
            b"".join(frame(payloads))
        )
        split = tfds.core.SplitInfo(
            name="train",
            shard_lengths=[5],
            num_bytes=sum(map(len, payloads)),
            filename_template=template,
        )
        self.info.set_splits(tfds.core.splits.SplitDict([split]))


def test_each_method_is_missing_by_name(tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match=r"^_info$"):
        Bare(data_dir=tmp_path)
    described = Described(data_dir=tmp_path)
    with pytest.raises(NotImplementedError, match=r"^_download_and_prepare$"):
        described._download_and_prepare(None)
    with pytest.raises(NotImplementedError, match=r"^_as_dataset$"):
        described._as_dataset("train")
    with pytest.raises(NotImplementedError, match=r"^_download_and_prepare$"):
        Described(data_dir=tmp_path).download_and_prepare()


def test_a_file_adapter_is_read_without_code(tmp_path: Path) -> None:
    builder = Written(data_dir=tmp_path)
    builder.download_and_prepare()
    rows = tfds.as_numpy(builder.as_dataset(split="train"))
    assert sorted(row["text"] for row in rows) == [b"row %d" % i for i in range(5)]


def test_the_package_offers_both_and_nothing_else() -> None:
    assert builders.__all__ == ["DatasetBuilder", "FileAdapterBuilder"]
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        _ = builders.Other
