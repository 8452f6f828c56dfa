"""The documentation site: links, pages and the reference, without building it."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PROJECT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site_pages() -> ModuleType:
    return script("site_pages")


@pytest.mark.parametrize(
    ("page", "link", "wanted"),
    [
        ("spark.md", "keyed-operators.md#join", "keyed-operators.md#join"),
        ("spark.md", "../README.md", "overview.md"),
        ("strategies/pkg.md", "../../CONTRIBUTING.md#set-up", "../contributing.md#set-up"),
        ("overview.md", "docs/spark.md", "spark.md"),
        ("overview.md", "docs/strategies/pkg.md", "strategies/pkg.md"),
        ("README.md", "strategies/", "strategies/README.md"),
        (
            "exactly-once.md",
            "../tests/plumbing/test_compiling.py",
            "source/tests/plumbing/test_compiling.py.md",
        ),
        ("spark.md", "https://example.org/a.md", "https://example.org/a.md"),
        ("spark.md", "#streams", "#streams"),
    ],
)
def test_links_lead_to_pages_of_the_site(
    site_pages: ModuleType, page: str, link: str, wanted: str
) -> None:
    assert site_pages.with_links_of_the_site(f"see [it]({link}).", page) == f"see [it]({wanted})."


def test_what_looks_like_a_link_in_code_is_left_alone(site_pages: ModuleType) -> None:
    text = "`[a](../README.md)`\n\n```\n[b](../README.md)\n```\n"
    assert site_pages.with_links_of_the_site(text, "spark.md") == text


def test_the_navigation_names_every_page_and_no_other(site_pages: ModuleType) -> None:
    text = (PROJECT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"[\w/-]+\.md$", text.split("\nnav:")[1], re.MULTILINE)
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    assert sorted(named) == sorted([*pages, *site_pages.PAGES.values()])


@pytest.mark.parametrize(
    "page",
    [path.stem for path in sorted((DOCS / "reference").glob("*.md")) if path.stem != "README"],
)
def test_a_page_of_the_reference_is_about_a_module_that_says_what_is_public(page: str) -> None:
    text = (DOCS / "reference" / f"{page}.md").read_text(encoding="utf-8")
    [name] = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    if name == "skewless.spark":
        pytest.importorskip("pyspark", reason="pyspark is not installed")
    module = importlib.import_module(name)
    assert text.startswith(f"# {name}\n")
    own = [n for n, one in vars(module).items() if getattr(one, "__module__", None) == name]
    public = getattr(module, "__all__", [n for n in own if not n.startswith("_")])
    assert public
    documented = [getattr(module, n) for n in public]
    assert all(one.__doc__ for one in documented if callable(one))


def test_jars_are_listed_whole() -> None:
    fetch_jars = script("fetch_jars")
    lists = {"kafka": {"broker", "connector"}, "delta": {"delta"}}
    jars = [jar for name in lists for jar in fetch_jars.read_list(name)]
    assert {jar.folder for jar in jars} == set().union(*lists.values())
    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in jars)
    assert len({jar.path for jar in jars}) == len(jars)
    with pytest.raises(SystemExit, match="no list of jars called 'kafak'; there are: delta, kafka"):
        fetch_jars.read_list("kafak")


def test_a_jar_with_other_bytes_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch_jars = script("fetch_jars")
    monkeypatch.setattr(fetch_jars, "TARGET", tmp_path)
    monkeypatch.setattr(fetch_jars, "LISTS", tmp_path)
    (tmp_path / "one.txt").write_text(f"broker org name 1.0 {'0' * 64}\n", encoding="utf-8")

    def fetch(jars: list[Any], java_home: str) -> int:
        jars[0].path.parent.mkdir()
        jars[0].path.write_bytes(b"something else")
        return 0

    monkeypatch.setattr(fetch_jars, "fetch", fetch)
    with pytest.raises(SystemExit, match=r"name-1\.0\.jar"):
        fetch_jars.main("one", "/nowhere")
