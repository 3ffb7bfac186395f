"""`python -m tests.system.chaos.skewed MODULE SECONDS` runs a service whose clock is ahead."""

import runpy
import sys
from datetime import datetime, timedelta

from shared import clock


def main() -> None:
    """Run the module; each part of it that imports the clock gets the wrong one."""
    module, seconds = sys.argv[1:]
    true_now, ahead = clock.now, timedelta(seconds=float(seconds))

    def skewed_now() -> datetime:
        return true_now() + ahead

    setattr(clock, "now", skewed_now)  # noqa: B010  (mypy refuses the assignment)
    sys.argv = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
