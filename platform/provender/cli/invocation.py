"""What every command is given: the global options and, on demand, what they lead to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from provender.cli.output import Output
from provender.errors import SettingsError

if TYPE_CHECKING:
    from provender.catalog import Catalog
    from provender.questions import Questions
    from provender.settings import Settings
    from provender.store import Store


@dataclass
class Invocation:
    """One run of the program.

    Attributes:
        catalog_url: the ``--catalog`` option.
        store_url: the ``--store`` option.
        config_file: the ``--config-file`` option.
        json: one JSON document on standard output, and nothing else.
        quiet: no progress and no headings.
        verbose: everything that is known.
        resumes: whether the command, interrupted, goes on from finished pieces when repeated.
    """

    catalog_url: str | None = None
    store_url: str | None = None
    config_file: str | None = None
    json: bool = False
    quiet: bool = False
    verbose: bool = False
    resumes: bool = False

    def check(self) -> None:
        """Refuses options that contradict each other.

        Raises:
            SettingsError: ``--quiet`` and ``--verbose`` together.
        """
        if self.quiet and self.verbose:
            raise SettingsError("Give --quiet or --verbose, not both.", where="--quiet --verbose")

    @cached_property
    def out(self) -> Output:
        """Where results go."""
        return Output(json=self.json, quiet=self.quiet, verbose=self.verbose)

    @cached_property
    def settings(self) -> Settings:
        """The project's settings, options included."""
        from provender.settings import load_settings

        return load_settings(store=self.store_url, catalog=self.catalog_url, file=self.config_file)

    @cached_property
    def catalog(self) -> Catalog:
        """The open catalog."""
        from provender.catalog import Catalog

        return Catalog.open(self.settings.catalog)

    @cached_property
    def questions(self) -> Questions:
        """The open catalog, as people ask it."""
        from provender.questions import Questions

        return Questions(self.catalog, self.settings)

    @cached_property
    def store(self) -> Store:
        """The store; opening it touches neither disk nor network."""
        from provender.store import Store

        return Store.open(self.settings.store, scratch=str(self.settings.scratch))
