"""`python -m tests.system.chaos`: an ordeal of any length, with its table."""

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from tests.system.chaos.ordeal import endure
from tests.system.chaos.plan import plan
from tests.system.chaos.table import repeat, table
from tests.system.chaos.town import fresh_seed


def main() -> int:
    """Run it; 1 if an invariant was broken, and then its folder is kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="the plan; drawn, and printed, without it")
    parser.add_argument("--seconds", type=float, default=1200.0, help="how long things die")
    parser.add_argument("--mutants", default="", help="faults in the services, see mutants/")
    told = parser.parse_args()
    seed = told.seed if told.seed is not None else fresh_seed()
    sys.stdout.write(f"seed {seed}\n")
    sys.stdout.flush()
    folder = Path(tempfile.mkdtemp(prefix="warpboard-chaos-"))
    report = asyncio.run(endure(plan(seed, told.seconds), folder, told.mutants.split()))
    sys.stdout.write(f"{table(report)}\n")
    if not report.is_sound:
        sys.stdout.write(f"repeat it with: {repeat(report)}\nits logs: {folder}\n")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
