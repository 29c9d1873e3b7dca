"""A DAG for each dataset of provender.toml and of the files that it includes.

Airflow's dags_folder points to this folder. A table that makes no sense is told by the file beside
this one.
"""

from provender.orchestration.airflow import dataset_dags

globals().update(dataset_dags(__file__))
