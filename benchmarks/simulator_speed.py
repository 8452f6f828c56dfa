"""Measure how many records the simulator takes per second; write the raw records and the table."""

import typer
from rich.progress import track

from benchmarks.tables import SIMULATOR_SPEED, write_simulator_speed
from skewless.experiments import simulator_speed
from skewless.experiments.tables import write_records

REPETITIONS = 3


def main() -> None:
    """Measure the simulator in records per second; write the raw records and the table."""
    n_cells = len(simulator_speed.SOURCES) * len(simulator_speed.KINDS) * REPETITIONS
    measured = simulator_speed.measure(repetitions=REPETITIONS)
    write_records(SIMULATOR_SPEED, list(track(measured, "simulating", total=n_cells)))
    print(f"raw records: {SIMULATOR_SPEED}")
    write_simulator_speed()


if __name__ == "__main__":
    typer.run(main)
