"""The table of a plan as arrays: every hash finds its workers, and no other hash finds any."""

import numpy as np
import pytest

from skewless.planning.key_plan import PlannedKey
from skewless.planning.packing import Piece
from skewless.planning.slots import Slots, dealt_to

WORD = 1 << 32


def look_up(slots: Slots, hashed: int) -> list[int] | None:
    """Return the workers of a hash as the expressions of Spark find them, or None."""
    last = len(slots.hashes) - 1
    unsigned = hashed % (WORD * WORD)
    for slot in (unsigned & last, unsigned // WORD & last):
        if slots.hashes[slot] == hashed:
            begin = slots.begins[slot]
            return slots.workers[begin : begin + slots.masks[slot] + 1]
    return None


def table_of(hashes: np.ndarray, rng: np.random.Generator) -> list[PlannedKey]:
    """Return keys with one to nine workers each."""
    keys = []
    for hashed in hashes.tolist():
        n = 1 if rng.random() < 0.7 else int(rng.integers(2, 10))
        shares = rng.dirichlet(np.ones(n)).tolist()
        pieces = map(Piece, rng.permutation(40)[:n].tolist(), shares)
        keys.append(PlannedKey(hashed, 1.0, tuple(pieces)))
    return keys


@pytest.mark.parametrize("n_keys", [1, 2, 3, 5, 64, 700])
@pytest.mark.parametrize("added", [0, 1000])
def test_every_key_is_found_and_no_other(n_keys: int, added: int) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        hashes = rng.integers(-(1 << 63), 1 << 63, n_keys)
        hashes[0] = (0, -1, -(1 << 63), (1 << 63) - 1)[seed % 4]
        table = table_of(np.unique(hashes), rng)
        slots = Slots.of(table, added)
        for key in table:
            expected = [key.pieces[0].worker]
            if key.is_split:
                expected = [worker + added for worker in dealt_to(key.pieces)]
            assert look_up(slots, key.hashed) == expected
        listed = {key.hashed for key in table}
        others = set(rng.integers(-(1 << 63), 1 << 63, 2000).tolist()) | set(range(-9, 10))
        assert all(look_up(slots, other) is None for other in others - listed)
        # What stands in an empty slot is a hash, too, of a key that may come.
        assert all(look_up(slots, hashed) is None for hashed in set(slots.hashes) - listed)


def test_a_worker_gets_its_share_of_a_split_key_to_a_percent() -> None:
    rng = np.random.default_rng(1)
    for n in (2, 3, 7, 32, 100):
        shares = rng.dirichlet(np.ones(n))
        found = dealt_to([Piece(worker, share) for worker, share in enumerate(shares.tolist())])
        assert len(found) & (len(found) - 1) == 0
        errors = np.bincount(found, minlength=n) / len(found) - shares
        assert np.abs(errors).max() <= 1 / len(found)
        assert np.abs(errors).max() * n <= 1 / 64  # of a fair share
    shares = np.array([1.0] * 15 + [0.07]) / 15.07
    found = dealt_to(
        [Piece(worker, share) for worker, share in enumerate(shares.tolist())], 1 / 0.07
    )
    assert np.bincount(found) / len(found) == pytest.approx(shares, rel=0.02)
    assert set(dealt_to([Piece(0, 0.5), Piece(1, 0.5)], float("inf"))) == {0, 1}
    # As text, they are in the plan that Spark prints.
    assert len(dealt_to([Piece(worker, 1e-4) for worker in range(10_000)], 50.0)) <= 1 << 18


def test_hashes_that_somebody_chose_are_refused() -> None:
    table = [PlannedKey(number << 54, 1.0, (Piece(0, 1.0),)) for number in range(1, 4)]
    with pytest.raises(ValueError, match="plan again with untrusted_keys=True"):
        Slots.of(table)
