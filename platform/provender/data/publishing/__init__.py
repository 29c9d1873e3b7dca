"""Publishing what transforms made: a dataset becomes a version of its own.

    ds.map(clean).publish("reviews_clean", version="1.0.0")

The rows go through the engine like those of any builder: in worker processes, each reading its
own rows, with catalog, manifest, offset index, statistics and conflict rules. What comes out is a
plain TFDS dataset. Rows keep their order: they are not shuffled by key, and TFDS reads them back
in that order; a row's number is its key.
"""

from __future__ import annotations

from provender.data.publishing.publish import Published, publish

__all__ = ["Published", "publish"]
