"""The flow `refresh_all`; see docs/prefect.md."""

from provender.orchestration.prefect.starting import prefer_patience

prefer_patience()

from provender.orchestration.prefect import refresh_all  # noqa: E402 - Prefect reads its settings when imported

__all__ = ["refresh_all"]

if __name__ == "__main__":
    import sys

    from provender.orchestration.prefect.starting import main

    sys.exit(main("refresh_all"))
