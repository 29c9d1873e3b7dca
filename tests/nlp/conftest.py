"""What all tests of the text pipelines share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _home_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where the records of files begin is kept in the home, which is not to be the developer's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROVENDER_HOME", str(tmp_path_factory.mktemp("home")))
        yield
