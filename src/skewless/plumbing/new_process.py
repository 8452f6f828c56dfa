"""How another Python process of this program is started."""

from __future__ import annotations

import sys

_WORKING_FOLDER_LAST = "import sys; sys.path[:1] == [''] and sys.path.append(sys.path.pop(0)); "


def python(program: str) -> list[str]:
    """Return the command that runs a program in a new process, with the working folder last.

    Python puts that folder first: a file `numpy.py` in it would replace numpy.
    """
    return [sys.executable, "-c", _WORKING_FOLDER_LAST + program]
