"""A digest of the source text that a compiled kernel was made from.

A kernel calls kernels of other files and reads their constants and state classes. Its machine code
is out of date as soon as one of those files changes.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path


def sources_digest(module: str, file: Path) -> str:
    """Return a digest of the module's text and the text of all modules that it imports.

    Only modules of its package and of this package count. The imports must be done: the modules
    are looked up among those that are loaded. What compiles kernels counts in any case.
    """
    packages = {module.partition(".")[0], __name__.partition(".")[0]}
    compiler = Path(__file__).with_name("compiling.py")
    texts = {f"{__package__}.compiling": compiler, module: file}
    waiting = list(texts.items())
    while waiting:
        for name in _imported(*waiting.pop()):
            found = getattr(sys.modules.get(name), "__file__", None)
            if found and name not in texts and name.partition(".")[0] in packages:
                texts[name] = Path(found)
                waiting.append((name, texts[name]))
    digest = hashlib.sha256()
    for name in sorted(texts):
        digest.update(f"{name}\n".encode())
        digest.update(_text_digest(texts[name]))
    return digest.hexdigest()[:16]


@functools.cache
def _text_digest(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


@functools.cache
def _imported(module: str, file: Path) -> tuple[str, ...]:
    """Return the names of the modules that a file may import."""
    if file.suffix != ".py":
        return ()
    return tuple(dict.fromkeys(_import_names(module, file)))


def _import_names(module: str, file: Path) -> Iterator[str]:
    waiting: list[ast.AST] = [ast.parse(file.read_bytes())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting.extend(
                node.orelse
            )  # the body is never run: what it imports may be loaded or not
            continue
        waiting.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")
                # A package counts as one of its own parents.
                kept = len(parents) - node.level + (file.name == "__init__.py")
                base = ".".join([*parents[:kept], *filter(None, [node.module])])
            yield base
            # `from package import name` may import a module.
            yield from (f"{base}.{alias.name}" for alias in node.names)
