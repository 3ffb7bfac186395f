"""What a device is on this machine, looked at in a process of its own: a GPU is opened there alone.

As a program: the device's name, which GPU, the walls that were found; it answers in a line of JSON.
"""

import json
import os
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.devices.device import DeviceFault
from harness.supervisor.defences import ALL
from harness.supervisor.outfit import opened, outfit

# To import torch, open a GPU and compile for it.
_LOOK_S_MAX = 180.0


@dataclass(frozen=True)
class Seen:
    """A device that works: its timing tier, and what results should say of it."""

    tier: str
    environment: dict[str, str]


def look(name: str, walls: Collection[str], gpu: int = 0) -> Seen:
    """What a run on this device, or this GPU of several, would have within these walls.

    Errors: DeviceFault.
    """
    if name == "cpu":
        return Seen("C1" if "freezer" in walls else "C2", {})
    command = [sys.executable, "-I", "-m", __name__, name, str(gpu), *walls]
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
    try:
        ended = subprocess.run(
            command, env=environment, capture_output=True, timeout=_LOOK_S_MAX, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise DeviceFault(f"{name!r} did not open within {_LOOK_S_MAX:.0f} s") from error
    return seen(ended.returncode, ended.stdout, ended.stderr)


def seen(status: int, said: bytes, complained: bytes) -> Seen:
    """What the program's end means. Errors: DeviceFault.

    >>> seen(0, b'a library spoke\\n{"tier": "G1", "environment": {"gpu": "NVIDIA H200"}}', b"")
    Seen(tier='G1', environment={'gpu': 'NVIDIA H200'})
    """
    if status:
        last = complained.decode(errors="replace").strip().rpartition("\n")[2]
        raise DeviceFault(last or f"looking at the device ended with status {status}")
    return Seen(**json.loads(said.decode().strip().rpartition("\n")[2]))


def main(arguments: Sequence[str]) -> None:
    """Opens the device and says what it is; exits with a sentence if that cannot be done."""
    name, gpu, *walls = arguments
    try:
        device = opened(name, outfit(name, gpus=[int(gpu)]), walls, ALL)
        said = {"tier": device.tier, "environment": device.describe()}
    except DeviceFault as fault:
        sys.exit(str(fault))
    print(json.dumps(said))  # noqa: T201  (a program's answer)


if __name__ == "__main__":
    main(sys.argv[1:])
