"""Adds to the documentation site what lies outside `docs/`; mkdocs calls it while it builds.

README, CONTRIBUTING and CHANGELOG become pages, and so does a source file that a page links to.
Links are written anew, so that the same Markdown works in a repository viewer and on the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
#: Files of the project that are pages of the site under another name.
PAGES = {"README.md": "overview.md", "CONTRIBUTING.md": "contributing.md"}
PAGES |= {"CHANGELOG.md": "changelog.md"}
LANGUAGES = {".py": "python", ".toml": "toml", ".yml": "yaml"}
# Code comes first, so that what looks like a link inside it is left alone.
CODE_OR_LINK = re.compile(
    r"^ *```.*?^ *```|`[^`\n]+`|(?<=\]\()<?(?P<target>[^)<>\s]+)>?(?=(?:\s+\"[^\"]*\")?\))",
    re.MULTILINE | re.DOTALL,
)


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each file outside `docs/` that is shown or linked to."""
    from mkdocs.structure.files import File, InclusionLevel

    origins = {uri: name for name, uri in PAGES.items()}
    markdown = {page.src_uri: page.content_string for page in files if page.src_uri.endswith(".md")}
    markdown |= {uri: _read(name) for uri, name in origins.items()}
    for uri, text in list(markdown.items()):
        for match in CODE_OR_LINK.finditer(text):
            name = in_project(uri, match["target"])
            if name is not None and (source := page_of(name)).startswith("source/"):
                origins[source] = name
    for uri, name in origins.items():
        if uri in PAGES.values():
            content, inclusion = _read(name), InclusionLevel.UNDEFINED
        else:  # found by its links only
            content, inclusion = as_page(name), InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, uri, content=content, inclusion=inclusion))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let links lead to pages of the site."""
    return with_links_of_the_site(markdown, page.file.src_uri)


def with_links_of_the_site(markdown: str, uri: str) -> str:
    """Return the text of a page with its links as the site needs them."""

    def changed(match: re.Match[str]) -> str:
        target = match["target"]
        name = in_project(uri, target)
        if name is None:
            return match[0]
        _, _, anchor = target.partition("#")
        link = posixpath.relpath(page_of(name), posixpath.dirname(uri) or ".")
        return f"{link}#{anchor}" if anchor else link

    return CODE_OR_LINK.sub(changed, markdown)


def in_project(uri: str, target: str | None) -> str | None:
    """Return the file of the project that a link of a page means; None for code and other links."""
    path = (target or "").partition("#")[0]
    if not path or re.match(r"[a-z]+:", path):
        return None
    origins = {page: name for name, page in PAGES.items()}
    here = origins.get(uri, posixpath.join("docs", uri))
    return posixpath.normpath(posixpath.join(posixpath.dirname(here), path))


def page_of(name: str) -> str:
    """Return the page of the site that shows a file of the project."""
    if (PROJECT / name).is_dir():
        name = posixpath.join(name, "README.md")
    if name in PAGES:
        return PAGES[name]
    return name.removeprefix("docs/") if name.startswith("docs/") else f"source/{name}.md"


def as_page(name: str) -> str:
    """Return a source file as a page."""
    language = LANGUAGES.get(Path(name).suffix, "text")
    return f"# {name}\n\n````{language}\n{_read(name).rstrip()}\n````\n"


def _read(name: str) -> str:
    """Return the text of a file of the project."""
    path = PROJECT / name
    if not path.is_file():
        raise FileNotFoundError(f"a page of the documentation links to {name}, which is no file")
    return path.read_text(encoding="utf-8")
