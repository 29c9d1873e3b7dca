"""Runs the DAG of a dataset, so many times, with OpenLineage at work, in a process of its own."""

from __future__ import annotations

import sys

from provender.orchestration.airflow.factory import build

if __name__ == "__main__":
    dag = build(sys.argv[1], sys.argv[2]).dags[sys.argv[2]]
    states = [str(dag.test().state) for _ in range(int(sys.argv[3]))]
    print(f"ended: {states}", flush=True)
