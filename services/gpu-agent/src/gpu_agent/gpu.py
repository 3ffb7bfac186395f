"""Which GPU type and machine this is, and whether it still works; the processor's is `CPU`."""

import hashlib
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

PROBE_S_MAX = 20
CPU = "CPU"
# What makers put around the name of a model.
_WORDS = frozenset(
    {"NVIDIA", "AMD", "TESLA", "INSTINCT", "GEFORCE", "RADEON", "QUADRO", "GRAPHICS"}
)
# What is a family and no model without the number behind it.
_FAMILIES = frozenset({"GTX", "RTX", "RX", "TITAN", "PRO"})
# Some 50 ms of known work with a known answer, and how long it may take at the very most.
CANARY_BLOCK_BYTES = 1 << 20
CANARY_BLOCKS = 64
CANARY_ANSWER = "3b6a07d0d404fab4e23b6d34bc6696a6a312dd92821332385e5af7c01c421351"
CANARY_S_MAX = 5.0
CANARY_TRIES = 2
# Machines made of one image share the first; the second changes whenever a machine starts.
IDENTITIES = (Path("/etc/machine-id"), Path("/proc/sys/kernel/random/boot_id"))
MEMORY = Path("/proc/meminfo")


def gpu_type(name: str) -> str:
    """The type that leaderboards rank by, of a device's full name; "" is the processor.

    >>> gpu_type("NVIDIA H200"), gpu_type("NVIDIA A100-SXM4-80GB"), gpu_type("Tesla T4")
    ('H200', 'A100', 'T4')
    >>> gpu_type("NVIDIA GeForce RTX 4090"), gpu_type("AMD Instinct MI300X OAM"), gpu_type("")
    ('RTX4090', 'MI300X', 'CPU')
    """
    words = [word for word in re.split(r"[\s\-_]+", name.upper()) if word and word not in _WORDS]
    kept = 1
    while kept < len(words) and words[kept - 1] in _FAMILIES:
        kept += 1
    return "".join(words[:kept]) or CPU


def gpus_not_offered() -> dict[str, str]:
    """Details on GPUs that are here and that no harness of this agent times."""
    gpus = _nvidia()
    return {"gpus_not_offered": ", ".join(gpus)} if gpus else {}


def host() -> str:
    """The same for all agents of this machine, and for nobody else's; "" if it cannot be told."""
    said = [path.read_text().strip() for path in IDENTITIES if path.is_file()]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16] if any(said) else ""


def memory_mib(environment: Mapping[str, str]) -> int:
    """The memory that a job may use: the GPU's, or where the processor is timed the machine's.

    >>> memory_mib({"gpu_memory_mib": "81559"})
    81559
    """
    if "gpu_memory_mib" in environment:
        return int(environment["gpu_memory_mib"])
    if not MEMORY.is_file():
        return 0
    found = re.search(r"^MemTotal: +(\d+) kB$", MEMORY.read_text(), re.MULTILINE)
    return int(found[1]) // 1024 if found else 0


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
