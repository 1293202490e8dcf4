"""Where the package has its programs."""

from __future__ import annotations

import pathlib

_HERE = pathlib.Path(__file__).parent


def command() -> pathlib.Path:
    """The command ``tslab``."""
    return _HERE / "native" / "bin" / "tslab"
