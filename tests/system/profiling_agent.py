"""A GPU agent on an imitation of an H100, whose runs compute on the processor under stand-in ncu.

The stand-in is beside its data folder, with the files by which a test says what it counts.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpu_agent import main as agent
from gpu_agent.domain import Machine
from gpu_agent.runs import HarnessRuns, inspect_machine
from gpu_agent.settings import print_key
from harness.pool import HarnessPool
from shared.blobs import BlobStore

STANDIN = "ncu-standin"
CARD, GPU = "NVIDIA H100 80GB HBM3", "H100"


def inspect_imitation(*arguments: Any) -> Machine:
    """Return this machine, with the name of a GPU that it does not have."""
    machine = inspect_machine(*arguments)
    return replace(machine, environment=machine.environment | {"gpu": CARD})


def make_runs(
    blobs: BlobStore, folder: Path, canary: Callable[[], str], **options: Any
) -> HarnessRuns:
    """Return the runs of an agent, in a harness that has the stand-in."""
    state = folder / "state"
    state.mkdir(parents=True, exist_ok=True)
    ncu = str(folder.parent / STANDIN / "ncu")
    pool = HarnessPool(options["slots"], spares=0, state=str(state), ncu=ncu)
    return HarnessRuns(blobs, folder, canary, **options, pool=pool)


if __name__ == "__main__":
    if sys.argv[1:] == ["key"]:
        sys.exit(print_key([]))
    vars(agent).update(inspect_machine=inspect_imitation, HarnessRuns=make_runs)
    sys.exit(agent.main(sys.argv[1:]))
