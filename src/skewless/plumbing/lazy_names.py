"""Names of a package that are imported when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package, given the names of each module, between spaces.

    No module may have the path `package.name`: its import would hide the name.
    """
    modules = {name: module for module, found in names.items() for name in found.split()}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{modules[name]}"), name)
        setattr(importlib.import_module(package), name, value)  # the next time it is just there
        return value

    return get
