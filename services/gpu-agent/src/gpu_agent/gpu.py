"""Which GPU this is, and whether the machine still works; without a GPU its type is `CPU`."""

import hashlib
import shutil
import subprocess
import time

PROBE_S_MAX = 20
CPU = "CPU"
# Some 50 ms of known work with a known answer, and how long it may take at the very most.
CANARY_BLOCK_BYTES = 1 << 20
CANARY_BLOCKS = 64
CANARY_ANSWER = "3b6a07d0d404fab4e23b6d34bc6696a6a312dd92821332385e5af7c01c421351"
CANARY_S_MAX = 5.0
CANARY_TRIES = 2


def gpus_not_offered() -> dict[str, str]:
    """Details on GPUs that are here and that no harness of this agent times."""
    gpus = _nvidia()
    return {"gpus_not_offered": ", ".join(gpus)} if gpus else {}


def canary() -> str:
    """Do known work twice at most; why this machine is not to be trusted, "" if it is well."""
    ailment = ""
    for _ in range(CANARY_TRIES):
        ailment = _sing()
        if not ailment:
            return ""
    return ailment


def _sing() -> str:
    block, digest = bytes(CANARY_BLOCK_BYTES), hashlib.sha256()
    began = time.monotonic()
    for _ in range(CANARY_BLOCKS):
        digest.update(block)
    took_s = time.monotonic() - began
    if digest.hexdigest() != CANARY_ANSWER:
        return "the canary's answer is wrong: this machine computes falsely"
    if took_s > CANARY_S_MAX:
        return f"the canary took {took_s:.1f} s, over {CANARY_S_MAX:.0f} s"
    return ""


def _nvidia() -> list[str]:
    """The names of the NVIDIA GPUs here, none if the driver's tool is not there or fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        said = subprocess.run(
            [tool, "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=PROBE_S_MAX,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in said.stdout.splitlines() if line.strip()]
