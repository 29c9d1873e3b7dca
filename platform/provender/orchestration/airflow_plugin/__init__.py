"""Provender's pages inside Airflow: lineage and versions beside the DAGs that make them.

`plugin.ProvenderPlugin` is found by its entry point (group ``airflow.plugins``). Airflow mounts what a
plugin brings without asking who comes, so `entrance` asks: nobody passes without Airflow's own login,
and what concerns a dataset is only for those who may read the DAG that builds it (`access`).
"""
