"""Write every generated table anew from the raw records; measures nothing."""

from importlib import import_module
from pkgutil import iter_modules

import typer

import benchmarks
from benchmarks import frontier, on_spark
from benchmarks.records import Report
from experiments.reproduction import document as reproduction


def reports() -> tuple[Report, ...]:
    """Return the reports of all benchmarks, each once."""
    found: dict[str, Report] = {}
    for package in (benchmarks, frontier, on_spark):
        for module in iter_modules(package.__path__, f"{package.__name__}."):
            if module.name != "benchmarks.tables" and not module.ispkg:
                report = getattr(import_module(module.name), "REPORT", None)
                found |= {} if report is None else {report.name: report}
    return tuple(found.values())


REPORTS = reports()


def write_all() -> None:
    """Write all generated tables of the documents anew, from the raw records."""
    for report in REPORTS:
        report.write_tables()
    reproduction.write_document(reproduction.recorded_results())
    pages = {document for report in REPORTS for document, _ in report.tables}
    print(f"tables written: {', '.join(sorted(pages))}, reproduction.md")


if __name__ == "__main__":
    typer.run(write_all)
