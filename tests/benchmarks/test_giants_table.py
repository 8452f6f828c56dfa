"""The table of giants, from records that a small run makes."""

from benchmarks import giants

SMALL = (giants.Case(600, 25, 1.0), giants.Case(3_000, 4, 0.5))


def test_pins_lower_the_largest_load_and_nothing_is_below_the_largest_key():
    records = list(giants.measure(cases=SMALL, n_windows=2, seeds=(1,)))
    assert len(records) == 2 * 3 * 2
    assert all(r["largest"] >= r["largest_key"] * (1 - 1e-9) for r in records)
    of = {(r["n_keys"], r["variant"], r["window"]): r for r in records}
    assert of[600, "pinned", 0]["largest"] < of[600, "literal", 0]["largest"]
    without = [of[3_000, variant, 1] for variant in ("literal", "pinned")]
    assert without[0]["largest"] == without[1]["largest"]
    assert without[0]["moved"] == without[1]["moved"]


def test_the_table_has_a_row_per_case_and_variant():
    records = list(giants.measure(cases=SMALL[:1], n_windows=2, seeds=(1,)))
    lines = giants.table(records).splitlines()
    assert len(lines) == 2 + len(giants.VARIANTS)
    assert lines[0].startswith("| stream | reading | largest key |")
    assert all(line.count("|") == 8 for line in lines)
