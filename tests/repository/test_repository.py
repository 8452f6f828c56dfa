"""What must hold for the files of the repository as they are checked in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest

PROJECT = Path(__file__).parents[2]

# Put together from pieces, so that this file does not find itself.
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:" + "|".join(["work", "root"]) + r")(?![\w-])")
REGISTRY = re.compile(
    "|".join(
        [
            r"https?://\S*/" + r"simple\b",  # a package index
            r"https?://[^\s/]*\b" + r"(?:registry|artifactory|nexus|devpi)\b",
            "python" + "hosted",
            r"(?:index|extra-index)" + "-url",
            "find" + "-links",
        ]
    ),
    re.IGNORECASE,
)
#: A reader takes in that many lines of a module, and that many files of a folder, at a glance.
MOST_LINES = 400
MOST_FILES = 17
#: Folders with one file per strategy.
PER_STRATEGY = {"docs/strategies", "docs/pictures/strategies", "src/skewless/strategies"}
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\]\(<?([^)<>\s]+)>?(?:\s+\"[^\"]*\")?\)")


def files_of_the_repository() -> list[Path]:
    """Return the files that git tracks, or would if it were asked to add all."""
    if not shutil.which("git") or not (PROJECT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"git cannot list the files: {done.stderr.strip()}")
    paths = [PROJECT / name for name in done.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def text_files() -> dict[Path, str]:
    """Return the text of every file that is text."""
    texts = {}
    for path in files_of_the_repository():
        content = path.read_bytes()
        if b"\0" not in content[:8192]:
            texts[path.relative_to(PROJECT)] = content.decode("utf-8", errors="replace")
    return texts


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path}:{number}: {line.strip()}"
        for path, text in text_files().items()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def local_links(markdown: str) -> list[str]:
    """Return the targets of links to files, without their anchors."""
    prose = INLINE_CODE.sub("", FENCED.sub("", markdown))
    targets = (target.split("#")[0] for target in LINK.findall(prose))
    return [unquote(t) for t in targets if t and not re.match(r"[a-z]+:", t)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see /" + "work/main", True),
        ("HOME=/" + "root", True),
        ("records per second/" + "worker", False),
        ("docs/" + "work/plan.md", False),
    ],
)
def test_machine_paths_are_recognised(text: str, found: bool) -> None:
    assert bool(MACHINE_PATH.search(text)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("https://example.org/" + "simple", True),
        ("--index" + "-url x", True),
        ("https://example.org/a-simple-page", False),
    ],
)
def test_registry_addresses_are_recognised(text: str, found: bool) -> None:
    assert bool(REGISTRY.search(text)) == found


def test_links_are_read_from_prose_only() -> None:
    markdown = "[a](x.md#part) [b](https://e.org) `[c](y.md)`\n```\n[d](z.md)\n```\n![e](<i.png>)"
    assert local_links(markdown) == ["x.md", "i.png"]


def test_no_file_names_a_path_of_one_machine() -> None:
    assert lines_with(MACHINE_PATH) == []


def test_no_file_names_a_package_registry() -> None:
    assert lines_with(REGISTRY) == []


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{path}: {target}"
        for path, text in text_files().items()
        if path.suffix == ".md"
        for target in local_links(text)
        if not (PROJECT / path.parent / target).exists()
    ]
    assert broken == []


def test_groups_of_tests_stay_together(request: pytest.FixtureRequest) -> None:
    """Otherwise two processes compile the same kernels, and run the same queries twice."""
    if "PYTEST_XDIST_WORKER" not in os.environ or not request.config.option.loadgroup:
        pytest.skip("runs in one process, or without groups")
    assert request.node.nodeid.endswith("@tests/repository/test_repository.py")


def test_no_module_is_too_long_to_read_and_no_folder_too_full() -> None:
    paths = [path.relative_to(PROJECT) for path in files_of_the_repository()]
    modules = [path for path in paths if path.suffix == ".py"]
    lines = {path: len((PROJECT / path).read_text("utf-8").splitlines()) for path in modules}
    assert {path: n for path, n in lines.items() if n > MOST_LINES} == {}
    files = Counter(path.parent.as_posix() for path in paths)
    full = {folder: n for folder, n in files.items() if n > MOST_FILES}
    assert set(full) <= PER_STRATEGY, full


def test_benchmarks_explain_themselves_instead_of_running() -> None:
    """`--help` must not start a measurement that writes over the raw records."""
    programs = [
        path
        for path in (PROJECT / "benchmarks").rglob("*.py")
        if 'if __name__ == "__main__"' in path.read_text("utf-8")
    ]
    assert programs
    assert [path.name for path in programs if "typer.run(" not in path.read_text("utf-8")] == []


def test_commits_are_checked_by_what_make_lint_runs() -> None:
    """With the tools of the environment: hooks of other repositories would be other versions."""
    hooks = (PROJECT / ".pre-commit-config.yaml").read_text("utf-8")
    assert re.findall(r"- repo: (.*)", hooks) == ["local"]
    lint = (PROJECT / "Makefile").read_text("utf-8").split("\nlint:")[1].split("\n\n")[0]
    entries = re.findall(r"entry: \.venv/bin/(.*)", hooks)
    assert len(entries) == hooks.count("- id:")
    assert {entry.split()[0] for entry in entries} == set(re.findall(r"\$\(BIN\)/(\S+)", lint))


def test_the_readme_names_few_targets() -> None:
    """Three to begin with, and those for a wheel and a table; `make help` has all."""
    named = set(re.findall(r"`?make ([a-z-]+)", (PROJECT / "README.md").read_text("utf-8")))
    assert named <= {"demo", "test", "help", "package", "bench-ways"}, named
