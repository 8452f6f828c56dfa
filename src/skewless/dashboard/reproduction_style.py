"""The style and the script of the page about the papers' figures."""

from __future__ import annotations

#: For light and dark screens, narrow and wide.
STYLE = """
:root { --back: #ffffff; --ink: #1c1e21; --pale: #62666d; --line: #dcdfe3; --soft: #f5f6f8;
  --good: #1a7f37; --half: #8a6100; --bad: #c0271a; --link: #1f5fae; }
@media (prefers-color-scheme: dark) {
  :root { --back: #16181c; --ink: #e4e6ea; --pale: #a0a5ad; --line: #363a41; --soft: #1f2227;
    --good: #56c271; --half: #e0b040; --bad: #ff7b6b; --link: #7db4f5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 0 1rem 4rem; max-width: 76rem; background: var(--back);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
a { color: var(--link); }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { margin-top: 3rem; } h3 { margin: 0 0 .75rem; }
nav { background: var(--soft); border-radius: .5rem; padding: .75rem 1rem; }
nav ul { margin: .25rem 0 .75rem; padding: 0; list-style: none; columns: 22rem; }
nav li { break-inside: avoid; padding: .2rem 0; }
article { border-top: 1px solid var(--line); padding: 1.5rem 0; scroll-margin-top: .5rem; }
.beside { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1.5rem; }
@media (min-width: 60rem) { .beside { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); } }
figure { margin: 0 0 1rem; } .plot { min-height: 320px; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: 0; padding: 0;
  list-style: none; font-size: .875rem; }
.legend svg { vertical-align: -2px; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .5rem .4rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: normal; }
td[data-label] { white-space: nowrap; }
th { color: var(--pale); font-weight: 600; } small { color: var(--pale); display: block; }
@media (max-width: 36rem) {
  thead { display: none; } td { border: 0; padding-bottom: 0; }
  tr { display: grid; grid-template-columns: auto auto 1fr; column-gap: 1rem;
    border-bottom: 1px solid var(--line); padding-bottom: .4rem; }
  td:first-child { grid-column: 1 / -1; }
  td[data-label]::before { content: attr(data-label) " "; color: var(--pale); } }
.badge { white-space: nowrap; font-size: .8rem; font-weight: 600; }
.reproduced { color: var(--good); }
.direction-only { color: var(--half); } .not-reproduced, .failed { color: var(--bad); }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
"""

#: Draws a plot when it comes into view, with the colours of the screen; INK and GRID are replaced.
SCRIPT = """
(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Set();
  function draw(place) {
    drawn.add(place);
    const text = document.getElementById(place.id + "-item").textContent
      .replaceAll("INK", dark.matches ? "#e4e6ea" : "#1c1e21")
      .replaceAll("GRID", dark.matches ? "#363a41" : "#dcdfe3");
    place.replaceChildren();
    Bokeh.embed.embed_item(JSON.parse(text), place.id);
  }
  const places = document.querySelectorAll(".plot");
  const observer = new IntersectionObserver(function (entries) {
    for (const entry of entries) {
      if (entry.isIntersecting && !drawn.has(entry.target)) draw(entry.target);
    }
  }, { rootMargin: "600px" });
  places.forEach(function (place) { observer.observe(place); });
  dark.addEventListener("change", function () { drawn.forEach(draw); });
  window.addEventListener("beforeprint", function () {
    places.forEach(function (place) { if (!drawn.has(place)) draw(place); });
  });
})();
"""
