"""``python -m provender``: the command line, for whoever has no script of that name on the path."""

from provender.cli import main

if __name__ == "__main__":
    main()
