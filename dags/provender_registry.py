"""Tells, as an import error, which datasets of provender.toml have no DAG, and why.

A file of its own: Airflow takes down every DAG of a file that has an import error.
"""

from provender.orchestration.airflow import check_registry

check_registry(__file__)
