"""What the routing of every strategy is: `python tests/contract/recorded_routing.py` records it.

A digest says that something changed, not what is right: the oracles do that. It is there for
whoever moves code about and means to change nothing.
"""

import hashlib
import json
import sys
from pathlib import Path

RECORDED = Path(__file__).with_suffix(".json")


def digest(strategy):
    """Return three digests.

    The workers of the first records of short streams; the loads of sources that merge; and the
    workers of whole streams, in which hot keys appear and change.
    """
    from skewless.checks.routing import routing_digest
    from skewless.simulator import Measuring, simulate
    from skewless.strategy import Merges
    from skewless.workloads import ShiftingZipf

    drifting = ShiftingZipf(z_min=0.8, z_max=1.6, n_keys=2_000, n_records=20_000, period=6_000)
    run = simulate(
        strategy,
        drifting,
        n_workers=12,
        n_sources=3,
        window=1_100,
        sync=2_900 if isinstance(strategy, Merges) else 0,
        seed=6,
        measuring=Measuring(keep_loads=True),
    )
    loads = hashlib.sha256(run.windows.loads.astype("<f8").tobytes())
    routings = [routing_digest(strategy), loads.hexdigest(), routing_digest(strategy, None)]
    return " ".join(one[:16] for one in routings)


def main():
    """Write the digests of all cases."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from contract.cases import CASES, IDS

    digests = {name: digest(case) for name, case in zip(IDS, CASES, strict=True)}
    RECORDED.write_text(json.dumps(digests, indent=0) + "\n")
    print(f"{len(digests)} digests are in {RECORDED}")


if __name__ == "__main__":
    main()
