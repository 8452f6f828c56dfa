"""docs/results/reproduction.md: its tables, from the results of figures, between markers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.records import PROJECT, RESULTS, markdown, read_records, write_table
from experiments.reproduction.catalogue import PAPERS, all_figures
from experiments.reproduction.figure import SIZES
from experiments.reproduction.results import OUTCOMES, REPRODUCED, Result, result, summary
from skewless.plumbing.text_tables import significant

RECORDS = RESULTS / "reproduction.jsonl"
DOCUMENT = PROJECT / "docs" / "results" / "reproduction.md"


def recorded_results() -> list[Result]:
    """Read the records, with the texts and rules of the catalogue as they are now."""
    known = {one["name"]: one for one in read_records(RECORDS)}
    return [result(one, known[one.name]) for one in all_figures() if one.name in known]


def write_document(results: Sequence[Result], document: Path = DOCUMENT) -> bool:
    """Write all tables of the document; return whether something changed."""
    tables: dict[str, str] = {
        "totals": totals_table(results),
        **{paper.name: paper_tables(results, paper.name) for paper in PAPERS},
        "misses": misses(results),
    }
    changed = [write_table(document, f"reproduction {name}", tables[name]) for name in tables]
    return any(changed)


def totals_table(results: Sequence[Result]) -> str:
    """Write what was measured, and how many figures and claims are reproduced, by paper."""

    def counts(some: Sequence[Result]) -> list[int]:
        fitted = sum(one["verdict"] == REPRODUCED and "fitted" in one for one in some)
        claims = [claim["verdict"] for one in some for claim in one["claims"]]
        outcomes = [sum(one["verdict"] == outcome for one in some) for outcome in OUTCOMES]
        return [len(some), *outcomes, fitted, len(claims), claims.count(REPRODUCED)]

    parts = [(of.title, [one for one in results if one["paper"] == of.name]) for of in PAPERS]
    rows = [[title, *counts(own)] for title, own in (*parts, ("all", results)) if own]
    heads = ["paper", "figures and tables", *OUTCOMES, "reproduced by a fitted setting"]
    table = markdown([*heads, "claims", "claims reproduced"], rows)
    sizes = dict.fromkeys(one["size"] for one in results)
    return "\n\n".join([*map(about_size, sizes), table, summary(results)])


def about_size(name: str) -> str:
    """Describe a size in one sentence."""
    size = SIZES[name]
    seeds = "one seed" if len(size.seeds) == 1 else f"{len(size.seeds)} seeds"
    seeds += " where a figure states no other number"
    records = f"at most {size.records:,} records per stream"
    if size.of:
        titles = {paper.name: paper.title for paper in PAPERS}
        parts = [f"{n:,} records of {titles[paper]}" for paper, n in size.of.items()]
        records = f"the authors' streams, of at most {', '.join(parts)}"
    return f"Size `{name}`: {records}, at most {size.workers:,} workers, {seeds}."


def paper_tables(results: Sequence[Result], paper: str) -> str:
    """Return the figures of a paper, and all claims about them."""
    own = [one for one in results if one["paper"] == paper]
    if not own:
        return "Nothing is measured."
    figures = []
    for r in own:
        verdict = f"{r['verdict']}; fitted: {r['fitted']}" if "fitted" in r else r["verdict"]
        texts = (r["figure"], r["title"], r["data"], r["size"], verdict)
        figures.append([_cell(text) for text in texts])
    claims = [
        [_cell(one["figure"]), _cell(_said(claim)), *_numbers(claim)]
        for one in own
        for claim in one["claims"]
    ]
    return "\n\n".join(
        [
            markdown(["figure", "what it shows", "streams", "size", "verdict"], figures, n_left=5),
            markdown(["figure", "claim", "paper's", "ours", "verdict"], claims, n_left=2),
        ]
    )


def _said(claim: Mapping[str, Any]) -> str:
    reason = f"; {claim['because']}" if claim.get("because") else ""
    return f"{claim['says']} ({claim['place']}{reason})"


def _numbers(claim: Mapping[str, Any]) -> list[str]:
    return [claim["expected"], significant(claim["ours"]), claim["verdict"]]


def misses(results: Sequence[Result]) -> str:
    """Build a section for each figure that is not fully reproduced: the reason, the evidence."""
    parts = [_miss(one) for one in results if one["verdict"] != REPRODUCED]
    return "\n\n".join(parts) or "There is none."


def _miss(one: Result) -> str:
    (paper,) = [paper.title for paper in PAPERS if paper.name == one["paper"]]
    number = f"figure {one['figure']}" if one["figure"][:1].isdigit() else one["figure"]
    head = f"### {paper}, {number}: {one['title']}"
    if "error" in one:
        return f"{head}\n\nIt failed: `{one['error']}`"
    lines = [
        f"- {_said(claim)}: {claim['expected']} expected, "
        f"{significant(claim['ours'])} measured, {claim['verdict']}."
        for claim in one["claims"]
        if claim["verdict"] != REPRODUCED
    ]
    lines += ["", one["why"] or "The reason is not known."]
    if one["evidence"]:
        rows = [
            [_cell(it["says"]), *_numbers(it)[:2], "yes" if it["verdict"] == REPRODUCED else "no"]
            for it in one["evidence"]
        ]
        lines += ["", markdown(["experiment", "expected", "measured", "holds"], rows)]
    return "\n".join([head, "", *lines])


def _cell(text: str) -> str:
    """Return a text that a cell of a Markdown table can hold."""
    return " ".join(text.replace("|", "\\|").split())
