"""docs/results/reproduction.md: its tables, from the results of figures, between markers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skewless.experiments.reproduction.figure import PAPERS, SIZES
from skewless.experiments.reproduction.results import (
    FAILED,
    MISSED,
    OUTCOMES,
    PAPER_NAMES,
    Result,
    summary,
    totals,
)
from skewless.experiments.tables import markdown, write_table
from skewless.rounding import significant


def write_document(document: Path, results: Sequence[Result]) -> bool:
    """Write all tables of the document; return whether something changed."""
    tables: dict[str, str] = {
        "totals": totals_table(results),
        **{str(paper): paper_tables(results, paper) for paper in PAPERS},
        "misses": misses(results),
    }
    changed = [write_table(document, f"reproduction {name}", tables[name]) for name in tables]
    return any(changed)


def totals_table(results: Sequence[Result]) -> str:
    """Return how much was measured, and the number of figures with each verdict, by paper."""
    rows = []
    for paper in PAPERS:
        own = [one for one in results if one["paper"] == paper]
        if own:
            rows.append([PAPER_NAMES[paper], *_counts(own)])
    rows.append(["all", *_counts(results)])
    table = markdown(["paper", "figures and tables", *OUTCOMES, "claims"], rows)
    sizes = dict.fromkeys(one["size"] for one in results)
    return "\n\n".join([*map(about_size, sizes), table, summary(results)])


def _counts(results: Sequence[Result]) -> list[int]:
    n_claims = sum(len(one["claims"]) for one in results)
    return [len(results), *totals(results).values(), n_claims]


def about_size(name: str) -> str:
    """Return how much a size measures, as one sentence."""
    size = SIZES[name]
    seeds = "one seed" if len(size.seeds) == 1 else f"{len(size.seeds)} seeds"
    return (
        f"Size `{name}`: at most {size.records:,} records per stream, at most {size.workers:,} "
        f"workers, {seeds}."
    )


def paper_tables(results: Sequence[Result], paper: str) -> str:
    """Return the figures of a paper, and all claims about them."""
    own = [one for one in results if one["paper"] == paper]
    if not own:
        return "Nothing is measured."
    figures = [[_cell(r["figure"]), _cell(r["title"]), _cell(r["data"]), r["verdict"]] for r in own]
    claims = [
        [_cell(one["figure"]), _cell(f"{claim['says']} ({claim['place']})"), *_numbers(claim)]
        for one in own
        for claim in one["claims"]
    ]
    return "\n\n".join(
        [
            markdown(["figure", "what it shows", "streams", "verdict"], figures, n_left=4),
            markdown(["figure", "claim", "paper's", "ours", "verdict"], claims, n_left=2),
        ]
    )


def _numbers(claim: Mapping[str, Any]) -> list[str]:
    return [claim["expected"], significant(claim["ours"]), claim["verdict"]]


def misses(results: Sequence[Result]) -> str:
    """Return what is not reproduced and what failed: the reason, and what shows it."""
    parts = [_miss(one) for one in results if one["verdict"] in (MISSED, FAILED)]
    return "\n\n".join(parts) or "There is none."


def _miss(one: Result) -> str:
    head = f"### {PAPER_NAMES[one['paper']]}, {_titled(one['figure'])}: {one['title']}"
    if one["verdict"] == FAILED:
        return f"{head}\n\nIt failed: `{one['error']}`"
    lines = [
        f"- {claim['says']} ({claim['place']}): {claim['expected']} expected, "
        f"{significant(claim['ours'])} measured."
        for claim in one["claims"]
        if claim["verdict"] == MISSED
    ]
    lines += ["", one["why"] or "The reason is not known."]
    if one["evidence"]:
        table = [
            [_cell(claim["says"]), *_numbers(claim)[:2], _holds(claim)] for claim in one["evidence"]
        ]
        headings = ["experiment", "expected", "measured", "holds"]
        lines += ["", markdown(headings, table)]
    return "\n".join([head, "", *lines])


def _holds(claim: Mapping[str, Any]) -> str:
    return "no" if claim["verdict"] == MISSED else "yes"


def _titled(number: str) -> str:
    return f"figure {number}" if number[:1].isdigit() else number


def _cell(text: str) -> str:
    """Return a text that a cell of a Markdown table can hold."""
    return " ".join(text.replace("|", "\\|").split())
