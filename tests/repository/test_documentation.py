"""The programs of the documents run as they stand; none is left out by oversight."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from document_blocks import PROJECT, Block, blocks, blocks_of, run_page
from skewless.checks import check_strategy
from skewless.checks.tampering import failures

#: Pages whose programs need neither Spark nor anything that the page does not make.
PLAIN = (
    "docs/background/splits.md",
    "docs/guides/add-a-strategy.md",
    "docs/guides/reproduce-a-paper.md",
    "docs/guides/tune.md",
    "docs/reference/aggregations.md",
    "docs/reference/checks.md",
    "docs/reference/metrics.md",
    "docs/reference/simulator.md",
    "docs/reference/skewless.md",
    "docs/reference/workloads.md",
    "docs/simulator.md",
)
#: Pages that tests/spark/test_guides.py runs.
ON_SPARK = (
    "docs/applications.md",
    "docs/chosen-keys.md",
    "docs/guides/hot-key-in-a-join.md",
    "docs/guides/skewed-joins.md",
    "docs/guides/straggler.md",
    "docs/guides/write-an-aggregator.md",
    "docs/keyed-state-reference.md",
    "docs/reference/spark.md",
    "docs/skewed-writes.md",
    "docs/tutorial.md",
)
#: Pages with a test of their own, by its file.
ALONE = {
    "CONTRIBUTING.md": "tests/repository/test_examples.py",
    "README.md": "tests/repository/test_examples.py",
    "docs/guides/delta.md": "tests/delta_lake/test_guide.py",
    "docs/guides/kafka.md": "tests/kafka/test_guide.py",
    "docs/keyed-operators.md": "tests/spark/state/test_guide.py",
    "docs/keyed-state.md": "tests/spark/state/test_guide.py",
    "docs/spark-reference.md": "tests/spark/test_documentation.py",
    "docs/spark.md": "tests/spark/test_documentation.py",
}


def pages_with_programs() -> dict[str, list[Block]]:
    paths = [*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")]
    found = {path.relative_to(PROJECT).as_posix(): path for path in sorted(paths)}
    return {page: programs for page in found if (programs := blocks(page))}


@pytest.mark.parametrize("page", PLAIN)
def test_the_programs_of_a_page_run_and_print_what_it_says(page: str, tmp_path: Path) -> None:
    run_page(page, tmp_path)


def test_every_page_with_programs_is_run_by_a_test() -> None:
    assert set(pages_with_programs()) == {*PLAIN, *ON_SPARK, *ALONE}
    assert all((PROJECT / file).exists() for file in ALONE.values())


def test_fragments_are_few_and_say_why() -> None:
    fragments = [b for programs in pages_with_programs().values() for b in programs if b.why]
    assert all(len(block.why or "") > 10 for block in fragments)
    assert len(fragments) <= 2


def test_no_program_hides_behind_another_spelling() -> None:
    """A block without a language, or with an unknown one, is not run: it must not be Python."""
    for path in [*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")]:
        text = path.read_text(encoding="utf-8")
        fences = [line.strip() for line in text.splitlines() if line.strip().startswith("```")]
        known = {"```", "```python", "```pycon", "```text", "```sh", "```sql", "```toml", "```yaml"}
        assert set(fences) <= known, path


def test_blocks_are_read_with_their_output_and_their_reason() -> None:
    text = "a\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n"
    text += "<!-- fragment: no df -->\n```python\nx\n```\n"
    assert blocks_of(text) == [
        Block("", 3, "print(1)\n", "1\n", None),
        Block("", 12, "x\n", None, "no df"),
    ]


def test_the_strategy_of_the_guide_keeps_the_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = blocks("docs/guides/add-a-strategy.md")[0].program
    (tmp_path / "strategy_of_the_guide.py").write_text(program, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    strategy = importlib.import_module("strategy_of_the_guide").Next()
    check_strategy(strategy)
    assert not list(failures(strategy, 40, 0))
