from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.frontier import tables as frontier_tables


def record(strategy, imbalance, replication, **others):
    """Return a record of the grid, with these things changed."""
    return {
        **{"group": "grid", "stream": "zipf", "z": 1.4, "workers": 32, "sources": 1, "seed": 1},
        **{"strategy": strategy, "imbalance": imbalance, "replication": replication},
        **{"replication_limit": 1.001, "records": 1000, "keys": 10, "shorter": False},
        **{"window_imbalance_mean": imbalance, "window_replication_mean": replication},
        **{"makespan_ratio": 1.0 + imbalance},
        **others,
    }


# --- the front


VALUES = st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0])


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=12))
def test_the_front_is_what_nobody_dominates(pairs):
    records = [record("hash", x, 1.0 + y) for x, y in pairs]
    best = frontier_tables.front(records)
    assert best
    for one in best:
        assert not any(frontier_tables.dominates(other, one) for other in best)
    for one in records:
        if not any(one is kept for kept in best):
            assert any(frontier_tables.dominates(kept, one) for kept in best)


def test_equals_do_not_dominate_each_other():
    assert not frontier_tables.dominates(record("a", 0.1, 1.1), record("b", 0.1, 1.1))
    assert frontier_tables.dominates(record("a", 0.1, 1.1), record("b", 0.1, 1.2))
    assert not frontier_tables.dominates(record("a", 0.0, 1.3), record("b", 0.1, 1.2))


def test_drifting_streams_are_judged_by_window():
    drifting = record("pkg", 0.1, 1.1, group="real", window_imbalance_mean=0.7)
    assert frontier_tables.balance_and_replicas(drifting) == (0.7, 1.1)


def test_other_seeds_are_not_in_the_comparison():
    own, other = record("cascade", 0.1, 1.1), record("cascade", 0.2, 1.2, seed=2)
    assert frontier_tables.by_cell([own, other]) == {"z = 1.4, n = 32": [own]}


# --- tables


def test_the_budget_needs_balance_and_few_replicas_with_every_seed():
    # limit 1.001, so the budget is 1 + 3 * 0.001 + 0.005 = 1.008
    good = record("cascade", 1e-4, 1.0079)
    assert frontier_tables.meets_budget(good)
    assert not frontier_tables.meets_budget(record("cascade", 1.1e-4, 1.0))
    assert not frontier_tables.meets_budget(record("cascade", 0.0, 1.0081))
    other = record("fish", 1e-5, 1.2)
    unbalanced = record("pkg", 1.0, 1.01)
    table = frontier_tables.budget_table([good, other, unbalanced])
    assert "Met in 1 of 1 cells." in table
    assert "| 1.4 | 32 | 0.0001 | 1.0079 | 1.0010 | 1.0080 | yes | fish 1.2000 |" in table
    table = frontier_tables.budget_table([good, {**good, "seed": 2, "replication": 1.01}])
    assert "Met in 0 of 1 cells." in table
    assert "| 1.0100 | 1.0010 | 1.0080 | 1 of 2 seeds | none |" in table


def test_low_skew_is_met_unless_someone_as_balanced_has_fewer_replicas():
    own = record("cascade", 1e-3, 1.05, z=0.5)
    worse = record("hash", 0.1, 1.0, z=0.5)
    costly = record("shuffle", 0.0, 1.5, z=0.5)
    cheaper = record("pkg", 1e-3, 1.04, z=0.5)
    met = frontier_tables.low_skew_table([own, worse, costly])
    assert "| 0.5 | 32 | 0.001 | 1.0500 | yes | shuffle 1.5000 |" in met
    missed = frontier_tables.low_skew_table([own, worse, costly, cheaper])
    assert "| no | pkg 1.0400, shuffle 1.5000 |" in missed


def test_the_grid_has_one_seed_and_the_most_workers():
    mild = record("hash", 0.1, 1.0, z=0.5)
    steep = record("hash", 0.2, 1.0, z=1.4)
    fewer = record("hash", 0.3, 1.0, workers=16)
    other = record("cascade", 0.4, 1.1, z=1.4, seed=2)
    short = record("pkg", 0.5, 1.2, z=0.5, shorter=True)
    assert frontier_tables.grid_table([fewer, steep, mild, other, short]).splitlines() == [
        "| strategy | z = 0.5 | z = 1.4 |",
        "| --- | ---: | ---: |",
        "| hash | 0.1 / 1.0000 | 0.2 / 1.0000 |",
        "| pkg† | 0.5 / 1.2000 |  |",
    ]


def test_many_sources_are_compared_with_one():
    one = record("cascade", 1e-4, 1.02, workers=128)
    many = {**one, "group": "sources", "sources": 32, "imbalance": 1e-3, "replication": 1.071}
    table = frontier_tables.sources_table([one, many])
    assert "| 0.0001 | 0.001 | 1.0200 | 1.0710 | 1.050 |" in table


def test_who_is_better_in_both_is_marked_and_listed():
    cell = {"group": "real", "stream": "words", "z": None, "sources": 4}
    records = [
        record("cascade", 0.1, 1.1, **cell),
        record("pkg", 0.05, 1.05, **cell),
        record("hash", 2.0, 1.0, **cell),
        record("shuffle", 0.0, 3.0, **cell),
        record("cm", 2.0, 2.0, **cell, shorter=True),
    ]
    page = frontier_tables.real_tables(records)
    assert "### words" in page
    assert "| pkg | 0.05 | 1.0500 ◀ |" in page
    assert "| **cascade** | **0.1** | **1.1000** |" in page
    assert "| cm† | 2 | 2.0000 |" in page
    assert frontier_tables.dominated_list(records) == (
        "- words, n = 32: pkg (0.05, 1.0500); cascade (0.1, 1.1000)"
    )
    assert "| words, n = 32 | shuffle | hash | pkg |" in frontier_tables.front_table(records)
    rivals = frontier_tables.rivals_table(records)
    assert "| hash | 0 | 0 | 1 | 0 |" in rivals
    assert "| shuffle | 0 | 1 | 0 | 0 |" in rivals
    assert "| pkg | 0 | 0 | 0 | 1 |" in rivals
    assert "| cm | 1 | 0 | 0 | 0 |" in rivals
    assert frontier_tables.dominated_list(records[:1] + records[2:]) == "None."
