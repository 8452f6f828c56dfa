import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.kernels.bits import add_worker, lowest_bit, without_lowest, words_for


@settings(deadline=None)
@given(n_workers=st.integers(1, 300), data=st.data())
def test_a_set_gives_back_its_workers_in_order(n_workers, data):
    chosen = data.draw(st.sets(st.integers(0, n_workers - 1)))
    row = np.zeros(words_for(n_workers), np.uint64)
    for worker in chosen:
        add_worker(row, worker)
        add_worker(row, worker)  # a second time changes nothing
    found = []
    for place in range(row.size):
        word = np.uint64(row[place])
        while word:
            found.append(64 * place + int(lowest_bit(word)))
            word = np.uint64(without_lowest(word))
    assert found == sorted(chosen)


def test_each_single_bit_is_found():
    for position in range(64):
        assert lowest_bit(np.uint64(1 << position)) == position
        all_above = np.uint64((1 << 64) - (1 << position))
        assert lowest_bit(all_above) == position
        assert without_lowest(np.uint64(1 << position)) == 0


def test_a_set_takes_a_word_for_every_64_workers():
    assert [words_for(n) for n in (1, 63, 64, 65, 128, 129)] == [1, 1, 1, 2, 2, 3]
