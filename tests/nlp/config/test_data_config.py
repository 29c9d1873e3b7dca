"""The fields of `DataConfig`: names and defaults are a contract with existing configurations."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from provender.nlp import DataConfig
from provender.nlp.registry import registered

DOCS = Path(__file__).parents[3] / "docs"

PUBLISHED = {
    "input_path": "",
    "tfds_name": "",
    "tfds_split": "",
    "global_batch_size": 0,
    "is_training": None,
    "drop_remainder": True,
    "shuffle_buffer_size": 100,
    "cache": False,
    "cycle_length": None,
    "block_length": 1,
    "ram_budget": None,
    "deterministic": None,
    "sharding": True,
    "enable_tf_data_service": False,
    "tf_data_service_address": None,
    "tf_data_service_job_name": None,
    "tfds_data_dir": "",
    "tfds_as_supervised": False,
    "tfds_skip_decoding_feature": "",
    "enable_shared_tf_data_service_between_parallel_trainers": False,
    "apply_tf_data_service_before_batching": False,
    "trainer_id": None,
    "seed": None,
    "prefetch_buffer_size": None,
    "autotune_algorithm": None,
}
OURS = {
    "tf_data_service_run": None,
    "version": "",
    "version_route": "auto",
    "weights": None,
    "stop_on_empty_dataset": True,
    "deterministic_mixing": True,
    "packing": None,
    "global_shuffle": False,
}


def test_fields_and_defaults() -> None:
    assert DataConfig().as_dict() == PUBLISHED | OURS


def test_every_field_is_described() -> None:
    described = DataConfig.__doc__ or ""
    for field in dataclasses.fields(DataConfig):
        assert f"        {field.name}: " in described, field.name


@pytest.mark.parametrize(
    "page", ["data-service.md", "nlp.md", "nlp-dynamic.md", "nlp-loaders.md", "nlp-resume.md"]
)
def test_pages_name_no_option_of_the_service_that_does_not_exist(page: str) -> None:
    """Users have been told of flags that there never were."""
    text = (DOCS / page).read_text()
    known = {each.name for kind in registered() for each in dataclasses.fields(kind)}
    named = set(re.findall(r"\b\w*tf_data_service\w*\b", text))
    assert named <= known
    assert not re.findall(r"--\w*tf_data_service\w*", text)
    assert named or page in ("nlp-loaders.md", "nlp-resume.md")
