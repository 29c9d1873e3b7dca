"""YAML and JSON documents at any address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from provender.errors import MissingFiles, SettingsError

# YAML 1.1 reads 1e-4 as a text; people mean the number.
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+")


def read_document(path: str) -> Mapping[str, Any]:
    """The mapping in a YAML or JSON file.

    Raises:
        MissingFiles: there is no such file.
        SettingsError: it is no YAML, or no mapping.
    """
    import yaml

    from provender.data.sources.access import open_reader, place_of

    file = place_of(str(path)).stat(str(path))
    if file is None:
        raise MissingFiles(
            "There is no such configuration file.", where=str(path), hint="Check the path."
        )
    with open_reader(file) as reader:
        data = reader.read(0, file.size)
    try:
        # A subclass of SafeLoader.
        found = yaml.load(data, _loader()) or {}  # noqa: S506
    except yaml.YAMLError as error:
        raise SettingsError(
            f"The file is neither YAML nor JSON: {error}", where=str(path), hint="Mend it."
        ) from error
    if not isinstance(found, Mapping):
        raise SettingsError(
            f"The file holds {type(found).__name__}, not keys and values.",
            where=str(path),
            hint="Write one `key: value` a line.",
        )
    return found


@cache
def _loader() -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        """Safe, and reads numbers such as 1e-4."""

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))
    return Loader
