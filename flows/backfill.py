"""The flow `backfill`; see docs/prefect.md."""

from provender.orchestration.prefect.starting import prefer_patience

prefer_patience()

from provender.orchestration.prefect import backfill  # noqa: E402 - Prefect reads its settings when imported

__all__ = ["backfill"]

if __name__ == "__main__":
    import sys

    from provender.orchestration.prefect.starting import main

    sys.exit(main("backfill"))
