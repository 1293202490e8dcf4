"""A plugin of pytest: runs each test in a domain's numpy(), and writes what came of each to the file TSLAB_OUTCOMES.

TSLAB_PLAIN=1: without the handler, for comparison. Fixtures are set up and torn down outside of the block: those of a module live
longer than a test.
"""

import json
import os

import numpy
import pytest
import tslab

PLAIN = os.environ.get("TSLAB_PLAIN") == "1"
core = numpy._core if hasattr(numpy, "_core") else numpy.core
outcomes = {}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    if PLAIN:
        yield
        return
    with tslab.Domain(item.name[:31]) as domain, domain.numpy():
        yield
        assert core.multiarray.get_handler_name() == "tslab"
        item.user_properties.append(("held", domain.held))


def pytest_runtest_logreport(report):
    """The worst of its three phases; a test that passes shows in its call alone."""
    if report.outcome != "passed" or report.when == "call":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)[-300:] if report.failed else ""
        kind = "xfailed" if hasattr(report, "wasxfail") and report.skipped else report.outcome
        outcomes[report.nodeid] = {"kind": kind, "reason": reason.split("\n")[0], "held": dict(report.user_properties).get("held", 0)}


def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput"):  # of xdist: the reports go to the parent
        return
    with open(os.environ["TSLAB_OUTCOMES"], "w", encoding="utf-8") as file:
        json.dump(outcomes, file)
