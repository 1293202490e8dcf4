"""Where the package has its programs."""

from __future__ import annotations

import pathlib
import shutil

_HERE = pathlib.Path(__file__).parent


def command() -> pathlib.Path:
    """The command ``tslab``: the package's own, or the installed one where it was built for the installed library."""
    own = _HERE / "native" / "bin" / "tslab"
    return own if own.exists() else pathlib.Path(shutil.which("tslab") or own)
