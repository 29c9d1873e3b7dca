"""What holds for every test."""

from __future__ import annotations

import os

# Read by gcsfs when it is imported: without it every call to a local GCS server first waits for a
# storage-layout request over TLS that no such server answers.
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
