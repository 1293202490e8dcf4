"""A plugin of pytest: runs each test in a domain's numpy(), and writes the outcome of each to the file TSLAB_OUTCOMES.

TSLAB_PLAIN=1: without the handler, for comparison. Fixtures are set up and torn down outside, as arrays of a module's fixtures live on.
"""

import json
import os

import pytest
import tslab

PLAIN = os.environ.get("TSLAB_PLAIN") == "1"
outcomes = {}
largest = 0


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    global largest
    if PLAIN:
        yield
        return
    with tslab.Domain(item.name) as domain, domain.numpy():
        yield
        largest = max(largest, domain.held)


def pytest_runtest_logreport(report):
    """The worst of its three phases; a test that passes shows in its call alone."""
    if report.outcome != "passed" or report.when == "call":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)[-300:] if report.failed else ""
        kind = "xfailed" if hasattr(report, "wasxfail") and report.skipped else report.outcome
        outcomes[report.nodeid] = [kind, reason]


def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput"):  # of xdist: the reports go to the parent
        return
    with open(os.environ["TSLAB_OUTCOMES"], "w", encoding="utf-8") as file:
        json.dump({"outcomes": outcomes, "largest": largest}, file)
