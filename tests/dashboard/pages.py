"""What all pages must hold: checked in the text of a page, as a browser would read it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

#: Elements and attributes by which a page loads something.
_LOADS = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


class _Loaded(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.policy = ""
        self.is_responsive = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        told = dict(attributes)
        address = told.get(_LOADS.get(tag, ""))
        if address:
            self.addresses.append(address)
        if tag == "meta" and told.get("http-equiv") == "Content-Security-Policy":
            self.policy = told.get("content") or ""
        if tag == "meta" and told.get("name") == "viewport":
            self.is_responsive = "width=device-width" in (told.get("content") or "")


def read_page(html: str) -> _Loaded:
    reader = _Loaded()
    reader.feed(html)
    return reader


def require_alone(html: str) -> None:
    """Raise AssertionError where a page could load something from outside."""
    page = read_page(html)
    assert [a for a in page.addresses if not a.startswith("data:")] == []
    assert "default-src 'none'" in page.policy
    assert "http" not in page.policy
    assert "*" not in page.policy
    assert page.is_responsive
    # The style sheets are ours and Bokeh's; what they would load is inside as well.
    styles = "".join(re.findall(r"<style[^>]*>(.*?)</style>", html, re.DOTALL))
    assert not re.search(r"@import|url\((?![\"']?data:)", styles)
    assert "prefers-color-scheme: dark" in html
