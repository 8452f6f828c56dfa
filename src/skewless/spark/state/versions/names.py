"""Makes and reads the names of the files of keyed state.

```
state/<batch>/<run>/plan.arrow                       what this run routes and reads by in this batch
state/<batch>/<run>/worker-<worker>-of-<workers>.arrow   what changed there, and what lies below it
scale/<number>.json                                  a number of workers that was asked for
```
"""

from __future__ import annotations

import re
from typing import NamedTuple

from skewless.spark.ledger.names import padded

BATCHES = "state"
REQUESTS = "scale"
BATCH = re.compile(r"state/(\d{8,})")
VERSION = re.compile(r"state/(\d{8,})/([\w-]+)/worker-(\d{5,})-of-(\d{5,})\.arrow")
#: How the file of a plan ends.
PLAN = "/plan.arrow"
REQUEST = re.compile(r"scale/(\d{8,})\.json")


class VersionName(NamedTuple):
    """One file: what one of `workers` workers wrote in one batch of one run."""

    batch: int
    run: str
    worker: int
    workers: int

    @property
    def file(self) -> str:
        """The file's name inside the ledger."""
        worker, workers = padded("worker", self.worker, 5), padded("workers", self.workers, 5)
        return f"{run_folder(self.batch, self.run)}/worker-{worker}-of-{workers}.arrow"


def version_name(file: str) -> VersionName | None:
    """Return the parts of a file's name, or None for a file that is not a version.

    >>> name = VersionName(7, "run", 2, 4)
    >>> name.file
    'state/00000007/run/worker-00002-of-00004.arrow'
    >>> version_name(name.file) == name
    True
    """
    match = VERSION.fullmatch(file)
    return match and VersionName(int(match[1]), match[2], int(match[3]), int(match[4]))


def batch_folder(batch: int) -> str:
    """Return the folder of one batch."""
    return f"{BATCHES}/{padded('batch', batch, 8)}"


def run_folder(batch: int, run: str) -> str:
    """Return the folder of what one run wrote in one batch."""
    return f"{batch_folder(batch)}/{run}"


def plan_file(batch: int, run: str) -> str:
    """Return the plan by which one run works in one batch."""
    return run_folder(batch, run) + PLAN


def request_file(number: int) -> str:
    """Return the file of one request for another number of workers."""
    return f"{REQUESTS}/{padded('request', number, 8)}.json"
