"""The web pages: what the catalog knows, to look at and to walk through.

    from provender.ui import create_app

    app = create_app(provender.load_settings())          # an ASGI application
    outer.mount("/provender", create_app(settings, authorize=may_look))

The pages only read. Everything is rendered on the server; nothing is loaded from elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.ui.app import create_app as create_app
    from provender.ui.reading import Library as Library
    from provender.ui.view import Authorize as Authorize

_HOME = {"Authorize": "view", "Library": "reading", "create_app": "app"}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    return getattr(import_module(f"provender.ui.{_HOME[name]}"), name)
