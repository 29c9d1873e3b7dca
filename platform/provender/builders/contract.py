"""Base classes for builders that do not generate examples one by one.

Most builders derive from `tfds.core.GeneratorBasedBuilder` or `tfds.core.ShardBasedBuilder` and
need nothing from here. These two spell out the older, smaller contract: `_info`,
`_download_and_prepare` and `_as_dataset`, each raising NotImplementedError until it is written.
"""

from __future__ import annotations

from typing import Any

import tensorflow_datasets as tfds


class DatasetBuilder(tfds.core.DatasetBuilder, skip_registration=True):  # type: ignore[call-arg]
    """A builder that writes its own files.

    A subclass implements three methods. `_download_and_prepare` writes files below
    `self.data_dir` and sets the splits on `self.info`; `_as_dataset` reads them back.
    """

    def _info(self) -> Any:
        """Returns the `tfds.core.DatasetInfo` of the dataset."""
        raise NotImplementedError("_info")

    def _download_and_prepare(self, dl_manager: Any, download_config: Any = None) -> None:
        """Writes the dataset's files below `self.data_dir`.

        Args:
            dl_manager: the download manager.
            download_config: `tfds.download.DownloadConfig`, holding ``max_examples_per_split``.
        """
        raise NotImplementedError("_download_and_prepare")

    def _as_dataset(
        self,
        split: Any,
        decoders: Any = None,
        read_config: Any = None,
        shuffle_files: bool = False,
    ) -> Any:
        """Reads one split.

        Returns:
            A `tf.data.Dataset` of examples.
        """
        raise NotImplementedError("_as_dataset")


class FileAdapterBuilder(DatasetBuilder, skip_registration=True):  # type: ignore[call-arg]
    """A builder whose files TFDS can read: shards beside features.json and dataset_info.json.

    The older name of TFDS for its file-backed builders. A subclass implements `_info` and
    `_download_and_prepare`; reading needs no code.
    """

    def _as_dataset(
        self,
        split: Any,
        decoders: Any = None,
        read_config: Any = None,
        shuffle_files: bool = False,
    ) -> Any:
        """Reads one split through TFDS's own reader."""
        return tfds.builder_from_directory(self.data_dir).as_dataset(
            split=split, decoders=decoders, read_config=read_config, shuffle_files=shuffle_files
        )
