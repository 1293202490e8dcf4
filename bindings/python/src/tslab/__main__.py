"""``python -m tslab run PROGRAM``, ``top``, ``stats``, ``doctor``: the command ``tslab`` of this package."""

import os
import sys

from ._native import command

path = str(command())
os.execv(path, ["tslab", *sys.argv[1:]])
