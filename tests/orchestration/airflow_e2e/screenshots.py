"""Makes the pictures of docs/airflow.md anew.

python -m tests.orchestration.airflow_e2e.screenshots docs/images
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from PIL import Image
from tests.orchestration.airflow_e2e.driving import PASSWORD, Driver, prepared
from tests.orchestration.airflow_e2e.walking import Walk, walking

DAG = "provender_digits"


def shots(walk: Walk, first: str, second: str) -> dict[str, Callable[[], object]]:
    """File name -> what brings the page onto the screen."""

    def at(path: str) -> None:
        walk.page.goto(f"{walk.url}{path}")

    def graph() -> None:
        # Airflow makes the graph fit; in a narrow window it could not be read.
        walk.page.set_viewport_size({"width": 2000, "height": 640})
        at(f"/dags/{DAG}")
        walk.page.get_by_label("Show Graph (Press g)").click()
        walk.page.locator(".react-flow__node").first.wait_for()

    def grid() -> None:
        at(f"/dags/{DAG}/runs/{second}")
        walk.page.get_by_text("train-00000 [cached]").first.wait_for()

    def lineage() -> None:
        found = walk.task(DAG, second, "write_shards", 0)
        found.get_by_role("link", name="Lineage of the version").click()
        found.locator("main svg.graph").wait_for()

    return {
        "airflow-grid.png": grid,
        "airflow-task.png": lambda: walk.task(DAG, second, "write_shards", 0),
        "airflow-lineage.png": lineage,
        "airflow-run.png": lambda: walk.run(DAG, first),
        "airflow-form.png": lambda: walk.form(DAG),
        # Last: from now on Airflow shows graphs to this visitor.
        "airflow-dag.png": graph,
    }


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        with prepared(Path(place) / "project") as airflow:
            airflow.start("scheduler")
            airflow.wait("scheduler")
            driver = Driver(airflow)
            runs = []
            for _ in range(2):
                runs.append(driver.trigger(DAG, workers=2))
                driver.ended(DAG, runs[-1])
            driver.ended("train_digits")
            with walking(airflow.url, "admin", PASSWORD) as walk:
                for name, show in shots(walk, runs[0], runs[1]).items():
                    show()
                    # Airflow's pages come in pieces, and say nowhere that they are whole.
                    walk.page.wait_for_timeout(3_000)
                    small = Image.open(BytesIO(walk.page.screenshot())).convert("RGB")
                    small.quantize(64, dither=0).save(folder / name, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
