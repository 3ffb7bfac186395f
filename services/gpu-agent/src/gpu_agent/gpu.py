"""Which GPU type and machine this is, and whether it still works; the processor's is `CPU`."""

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PROBE_S_MAX = 20
CPU = "CPU"
# What makers put around the name of a model.
_WORDS = frozenset(
    {"NVIDIA", "AMD", "TESLA", "INSTINCT", "GEFORCE", "RADEON", "QUADRO", "GRAPHICS"}
)
# What is a family and no model without the number behind it.
_FAMILIES = frozenset({"GTX", "RTX", "RX", "TITAN", "PRO"})
# Some 50 ms of known work with a known answer, and how much of a processor's time it may take at
# the very most: by the clock a machine that is merely busy takes any time.
CANARY_BLOCK_BYTES = 1 << 20
CANARY_BLOCKS = 64
CANARY_ANSWER = "3b6a07d0d404fab4e23b6d34bc6696a6a312dd92821332385e5af7c01c421351"
CANARY_S_MAX = 5.0
CANARY_TRIES = 2
# Machines made of one image share the first; the second changes whenever a machine starts.
IDENTITIES = (Path("/etc/machine-id"), Path("/proc/sys/kernel/random/boot_id"))
# Where the driver says what went wrong, a record a read.
KERNEL_LOG, XID = "/dev/kmsg", b"NVRM: Xid"
KERNEL_RECORD_BYTES = 8192
KERNEL_RECORDS_MAX = 100_000


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


def details(kind: str, gpu_index: int) -> dict[str, str]:
    """Which GPU of this host is offered; where the processor is, which GPUs are not."""
    if kind != CPU:
        return {"gpu_index": str(gpu_index)}
    gpus = _nvidia()
    return {"gpus_not_offered": ", ".join(gpus)} if gpus else {}


def host() -> str:
    """The same for all agents of this machine, and for nobody else's; "" if it cannot be told."""
    said = [path.read_text().strip() for path in IDENTITIES if path.is_file()]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16] if any(said) else ""


def memory_mib(environment: Mapping[str, str], machine_mib: int) -> int:
    """The memory that a job may use: the GPU's, or where the processor is timed the machine's.

    >>> memory_mib({"gpu_memory_mib": "81559"}, 4096), memory_mib({}, 4096)
    (81559, 4096)
    """
    return int(environment.get("gpu_memory_mib", machine_mib))


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
    began = time.thread_time()
    for _ in range(CANARY_BLOCKS):
        digest.update(block)
    took_s = time.thread_time() - began
    if digest.hexdigest() != CANARY_ANSWER:
        return "the canary's answer is wrong: this machine computes falsely"
    if took_s > CANARY_S_MAX:
        return f"the canary took {took_s:.1f} s of processor, over {CANARY_S_MAX:.0f} s"
    return ""


@dataclass(frozen=True)
class Reading:
    """How one GPU is; None for what its driver does not tell."""

    index: str
    use_ratio: float | None
    memory_bytes: float | None
    temperature_celsius: float | None
    clock_hertz: float | None


def readings(uuid: str = "") -> list[Reading]:
    """How this NVIDIA GPU is, or all that are here, by the driver's own tool: none without it.

    It disturbs what is being timed, so nobody should ask while a run is in hand.
    """
    asked = "index,utilization.gpu,memory.used,temperature.gpu,clocks.sm"
    return [found for line in _smi(asked, "nounits", uuid=uuid) if (found := reading(line))]


def reading(line: str) -> Reading | None:
    """One line of the driver's tool.

    >>> reading("0, 25, 1, 33, 1980") == Reading("0", 0.25, 1048576, 33, 1.98e9)
    True
    >>> reading("1, [N/A], 0, 30, [Not Supported]") == Reading("1", None, 0, 30, None)
    True
    """
    index, *fields = [field.strip() for field in line.split(",")]
    if len(fields) != 4:
        return None
    use, memory, temperature, clock = (int(one) if one.isdecimal() else None for one in fields)
    return Reading(
        index,
        None if use is None else use / 100,
        None if memory is None else memory * 1024**2,
        temperature,
        None if clock is None else clock * 1e6,
    )


def xids(path: str = KERNEL_LOG) -> int | None:
    """How many Xid errors the kernel's log holds, None where we may not read it."""
    try:
        log = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return sum(XID in record for record in _records(log))
    finally:
        os.close(log)


def _records(log: int) -> Iterator[bytes]:
    for _ in range(KERNEL_RECORDS_MAX):
        try:
            record = os.read(log, KERNEL_RECORD_BYTES)
        except BrokenPipeError:
            continue  # It was overwritten before we read it.
        except OSError:
            return
        if not record:
            return
        yield record


def _nvidia() -> list[str]:
    """The names of the NVIDIA GPUs here."""
    return _smi("name")


def _smi(asked: str, *units: str, uuid: str = "") -> list[str]:
    """The lines of the NVIDIA driver's tool, none if it is not there or fails."""
    of = [f"--id={uuid}"] if uuid else []
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        said = subprocess.run(
            [
                tool,
                f"--query-gpu={asked}",
                f"--format={','.join(('csv', 'noheader', *units))}",
                *of,
            ],
            capture_output=True,
            text=True,
            timeout=PROBE_S_MAX,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in said.stdout.splitlines() if line.strip()]
