"""Reducers for third-party types, one module for each group of packages; loaded when met."""
