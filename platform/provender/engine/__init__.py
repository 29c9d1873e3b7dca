"""The engine: `decide` says what a build would do and why, `execute` does one stage."""
