"""The flow `prepare_dataset`; see docs/prefect.md."""

from provender.orchestration.prefect.starting import prefer_patience

prefer_patience()

from provender.orchestration.prefect import prepare_dataset  # noqa: E402 - Prefect reads its settings when imported

__all__ = ["prepare_dataset"]

if __name__ == "__main__":
    import sys

    from provender.orchestration.prefect.starting import main

    sys.exit(main("prepare_dataset"))
