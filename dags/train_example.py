"""A model for each version of Digits: the consumer's side of a dataset's DAG.

Airflow starts it when a version is announced. It reads exactly that version, and the catalog learns
which model was trained on what: `provender consumed-by train_digits/RUN`, and the DAG's tab in Airflow.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import Asset, dag, task

from provender.orchestration.airflow.assets import create_asset

DIGITS = create_asset(dataset="digits")
MODEL = Asset(name="digits_model", group="provender")


@dag(
    dag_id="train_digits",
    schedule=[DIGITS],
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["provender", "training"],
    default_args={"retries": 1},
)
def train_digits() -> None:
    """Trains a small classifier on the version that was announced."""

    @task(inlets=[DIGITS], outlets=[MODEL])
    def train(
        dag_run: Any = None,
        triggering_asset_events: Any = None,
        inlet_events: Any = None,
        outlet_events: Any = None,
    ) -> dict[str, Any]:
        """Reads, trains, keeps the model, and says what it was trained on."""
        from provender.orchestration.airflow.consuming import announced, job_of, reading

        told = announced(DIGITS, triggering_asset_events, inlet_events)
        with reading(__file__, told, job_of(dag_run)) as (settings, job):
            made = fit(told.name, settings, job)
        outlet_events[MODEL].extra = {
            "trained_on": told.name,
            "fingerprint": told.fingerprint,
            **made,
        }
        return {"trained_on": told.name, **made}

    train()


def fit(name: str, settings: Any, job: str) -> dict[str, Any]:
    """Two passes of a small network over the training split.

    Args:
        name: the version, e.g. ``digits:1.0.0``.
        settings: where it is read from.
        job: name under which the catalog learns of it.

    Returns:
        ``model``: the file; ``accuracy`` on the test split; ``job``.
    """
    # Only here: the scheduler and the other tasks need not wait for TensorFlow.
    import keras

    import provender

    options = {"settings": settings, "job": job, "batch_size": 64, "as_supervised": True}
    keras.utils.set_random_seed(7)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    train = provender.load(name, split="train", shuffle=1500, seed=7, **options)
    done = model.fit(train, epochs=2, verbose=0)
    _, accuracy = model.evaluate(provender.load(name, split="test", **options), verbose=0)

    file = settings.home / "models" / f"{job.replace('/', '-')}.keras"
    file.parent.mkdir(parents=True, exist_ok=True)
    model.save(file)
    provender.record_position(
        job, epoch=len(done.epoch), accuracy=round(float(accuracy), 4), checkpoint=str(file)
    )
    return {"model": str(file), "accuracy": round(float(accuracy), 4), "job": job}


train_digits()
