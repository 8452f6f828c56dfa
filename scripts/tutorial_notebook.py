"""Run the programs of the tutorial, and write it with their results as `docs/tutorial.ipynb`.

A block of text right after a program is what it prints, and a picture there is what it draws. In
the notebook both are results of the cell; the file of the picture is written too.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Cell = dict[str, Any]

PROGRAM = re.compile(
    r"^```python\n(.*?)^```\n(?:\n*^```text\n.*?^```\n)?(?:\n*^!\[[^]]*\]\(([^)]+)\)\n)?",
    re.MULTILINE | re.DOTALL,
)
# A path has two parts at least, and is not in an address of the network.
PATH_OR_ADDRESS = re.compile(r"(?<![\w.:/)}<-])(?:file:)?/\w[\w.-]*/\w+|\b\d+(?:\.\d+){3}\b")


def cells_of(text: str) -> Iterator[tuple[Cell, str | None]]:
    """Yield the cells of a page, which have no results yet, each with the picture that it links."""
    parts = PROGRAM.split(text)  # text, program, picture, text, …
    for number, part in enumerate(parts):
        kind = ("markdown", "code", None)[number % 3]
        if kind is None or not part.strip():
            continue
        cell: Cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        cell["source"] = part.strip("\n").splitlines(keepends=True)
        if kind == "code":
            cell |= {"execution_count": number // 3 + 1, "outputs": []}
        yield cell, parts[number + 1] if kind == "code" else None


def run(cell: Cell, names: dict[str, Any]) -> list[bytes]:
    """Run a program; put what it printed and drew into its cell, and return the pictures."""
    from matplotlib import pyplot as plt

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec("".join(cell["source"]), names)
    if said.getvalue():
        lines = said.getvalue().splitlines(keepends=True)
        cell["outputs"].append({"output_type": "stream", "name": "stdout", "text": lines})
    pictures = []
    for number in plt.get_fignums():
        drawn = io.BytesIO()
        # No version: the file changes only when the picture does.
        plt.figure(number).savefig(drawn, format="png", dpi=100, metadata={"Software": None})
        pictures.append(drawn.getvalue())
        data = {"image/png": base64.b64encode(drawn.getvalue()).decode()}
        shown: Cell = {"output_type": "display_data", "data": data, "metadata": {}}
        cell["outputs"].append(shown)
    plt.close("all")
    return pictures


def leaks(notebook: Cell) -> list[str]:
    """Return the paths, the addresses and the name of this machine that a notebook names."""
    outputs = [one for cell in notebook["cells"] for one in cell.get("outputs", ())]
    lines = [line for cell in notebook["cells"] for line in cell["source"]]
    text = "".join(lines + [line for one in outputs for line in one.get("text", ())])
    found = [match[0] for match in PATH_OR_ADDRESS.finditer(text)]
    host = re.search(rf"\b{re.escape(socket.gethostname())}\b", text)
    return found + ([host[0]] if host else [])


def write_notebook(page: Path) -> None:
    """Write the notebook of a page beside it, and the pictures that the page links to."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells: list[Cell] = []
    pictures: dict[Path, bytes] = {}
    for cell, linked in cells_of(page.read_text(encoding="utf-8")):
        cells.append(cell)
        if cell["cell_type"] == "code":
            drawn = run(cell, names)
            if len(drawn) != (n_links := int(linked is not None)):
                text = f"draws {len(drawn)} pictures, and links to {n_links}"
                raise ValueError(f"program {cell['execution_count']} {text}")
            pictures |= {page.parent / str(linked): picture for picture in drawn}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook = {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    if found := leaks(notebook):
        raise ValueError(f"the notebook names a path or a host: {', '.join(found)}")
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    for path, picture in pictures.items():
        path.write_bytes(picture)
    page.with_suffix(".ipynb").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_notebook(Path(__file__).resolve().parent.parent / "docs" / "tutorial.md")
