"""The pages, one module a subject; each has a ``router``."""
