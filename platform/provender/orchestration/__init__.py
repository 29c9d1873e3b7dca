"""Adapters that run the engine's stages from Airflow and Prefect; no dataset logic lives here."""
