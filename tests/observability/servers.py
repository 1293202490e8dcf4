"""The servers that the scripts start, for the tests of the scripts."""

import os
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "observability"))
from check_queries import free_ports  # noqa: E402,F401 (its directory is not a package; used by the tests)


def get(url):
    """The text at an address; None while there is none."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read().decode()
    except (urllib.error.URLError, OSError):
        return None


def wait_for(what, seconds=20):
    """The first true answer of `what`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = what()
        if got:
            return got
        time.sleep(0.1)
    raise AssertionError("it did not come")
