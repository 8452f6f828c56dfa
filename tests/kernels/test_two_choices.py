import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.kernels.least_loaded import send_to_lighter

N_WORKERS = 5
workers = st.integers(0, N_WORKERS - 1)


@settings(deadline=None)
@given(st.lists(st.tuples(workers, workers), max_size=80))
def test_a_record_goes_to_the_lighter_worker_and_to_the_first_on_a_tie(pairs):
    loads, oracle = np.zeros(N_WORKERS, np.int64), [0] * N_WORKERS
    for first, second in pairs:  # both may be the same worker
        expected = min((first, second), key=lambda worker: oracle[worker])
        oracle[expected] += 1
        assert send_to_lighter(loads, np.int32(first), np.int32(second)) == expected
        assert loads.tolist() == oracle
