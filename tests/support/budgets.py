"""How much processor time each tier of tests may take; a tier that grew by a fifth fails.

Wall time depends on the machine and on what else runs there. So a budget counts the processor
time of pytest and all its processes, in units: 1 unit is what the start of a Python that imports
some of the standard library takes on the same machine in the same run. `tests/budgets.toml` holds
what each tier took when it was last measured.
"""

import os
import resource
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

BUDGETS = Path(__file__).parents[1] / "budgets.toml"
GROWTH_MAX = 1.2
STARTS = 3
TRIES = 3
START_S_MAX = 60
# The exit code of such a run, whether or not tests failed, too: a rerun would not help.
OVER_BUDGET = 6
IMPORTS = "import asyncio, unittest, email.message, http.client, xml.dom.minidom"


def start_s() -> float:
    """Return the processor time of the start that is the unit. Units: seconds.

    A loop in plain Python would depend on how the interpreter was built: of two builds of 3.11 one
    runs it 1.7 times as fast, and yet takes as long for the tests. They mostly start processes,
    import, and call what is written in C. All cores are busy, as they are during the tests: a core
    whose sibling is idle needs less processor time for the same start.
    """
    cores = os.cpu_count() or 1
    times_s = []
    for _ in range(TRIES):
        before_s = used_s()
        for _ in range(STARTS):
            starts = [subprocess.Popen([sys.executable, "-I", "-c", IMPORTS]) for _ in range(cores)]
            assert not any(start.wait(START_S_MAX) for start in starts)
        times_s.append((used_s() - before_s) / (STARTS * cores))
    return statistics.median(times_s)


def used_s() -> float:
    """Return the processor time of this process and of all that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


class Budget:
    """Compares what a tier took with its budget, when a whole tier is run: `--tier NAME`."""

    def __init__(self, tier: str) -> None:
        self.tier = tier
        self.units_max = tomllib.loads(BUDGETS.read_text())[tier] * GROWTH_MAX
        self._start_s = start_s()
        self._before_s = used_s()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        """Turn the run red if it took more; its workers have ended by then."""
        result = yield
        used = used_s() - self._before_s
        # Both ends of the run: a busy neighbour slows the starts as it slows the tests.
        units = used / statistics.mean([self._start_s, start_s()])
        print(  # noqa: T201
            f"\ntier {self.tier}: {units:.0f} units of processor time"
            f" ({used:.0f} s on this machine), at most {self.units_max:.0f}"
        )
        if units > self.units_max:
            print(  # noqa: T201
                f"tier {self.tier} has grown by more than a fifth: make its tests cheaper, or"
                f" write what it takes now into tests/{BUDGETS.name}, and say why"
            )
            session.exitstatus = OVER_BUDGET
        return result
