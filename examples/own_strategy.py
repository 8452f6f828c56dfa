"""A strategy of your own against all others, on a stream whose hot keys drift; without Spark."""

from three_choices import ThreeChoices  # the file beside this one

import skewless
from skewless import workloads

stream = workloads.make("evolving-zipf", z=1.4, n_keys=2_000, n_records=100_000, period=25_000)
print(f"{'strategy':15} {'imbalance':>10} {'replicas per key':>17}")
for strategy in (ThreeChoices(), *map(skewless.make, skewless.names())):
    run = skewless.simulate(strategy, stream, n_workers=16, n_sources=2).summary()
    print(f"{strategy.name:15} {run['imbalance']:10.3f} {run['replication']:17.3f}")
