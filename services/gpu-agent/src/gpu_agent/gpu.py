"""Detects the GPU type and the host, and reads the state of the GPUs between runs."""

import contextlib
import hashlib
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from gpu_agent.domain import GpuReading

PROBE_S_MAX = 20
CPU = "CPU"
# Words that makers put around the name of a model.
_WORDS = frozenset(
    {"NVIDIA", "AMD", "TESLA", "INSTINCT", "GEFORCE", "RADEON", "QUADRO", "GRAPHICS"}
)
# Product families, which need the number that follows to name a model.
_FAMILIES = frozenset({"GTX", "RTX", "RX", "TITAN", "PRO"})
# Machines cloned from one image share the first; the second changes at each boot.
IDENTITIES = (Path("/etc/machine-id"), Path("/proc/sys/kernel/random/boot_id"))
# The kernel's log, where the driver reports errors; each read returns one record.
KERNEL_LOG, XID = "/dev/kmsg", b"NVRM: Xid"
KERNEL_RECORD_BYTES = 8192
KERNEL_RECORDS_MAX = 100_000


def gpu_type(name: str) -> str:
    """Return the type that leaderboards rank by from a device's full name; "" is the processor.

    >>> gpu_type("NVIDIA H200"), gpu_type("NVIDIA A100-SXM4-80GB"), gpu_type("Tesla T4")
    ('H200', 'A100', 'T4')
    >>> gpu_type("NVIDIA GeForce RTX 4090"), gpu_type("AMD Instinct MI300X OAM"), gpu_type("")
    ('RTX4090', 'MI300X', 'CPU')
    """
    words = [word for word in re.split(r"[\s\-_]+", name.upper()) if word and word not in _WORDS]
    word_count = 1
    while word_count < len(words) and words[word_count - 1] in _FAMILIES:
        word_count += 1
    return "".join(words[:word_count]) or CPU


def gpu_details(kind: str, gpu_index: int) -> dict[str, str]:
    """Return which GPU of this host is offered; for the processor, which GPUs are not."""
    if kind != CPU:
        return {"gpu_index": str(gpu_index)}
    gpus = _run_nvidia_smi("name")
    return {"gpus_not_offered": ", ".join(gpus)} if gpus else {}


def host_id() -> str:
    """Return an id that all agents of this machine share; "" if there is none."""
    identities = [path.read_text().strip() for path in IDENTITIES if path.is_file()]
    return (
        hashlib.sha256("\n".join(identities).encode()).hexdigest()[:16] if any(identities) else ""
    )


def memory_mib(environment: Mapping[str, str], machine_mib: int) -> int:
    """Return the memory that a job may use: the GPU's, or the machine's if the processor is timed.

    >>> memory_mib({"gpu_memory_mib": "81559"}, 4096), memory_mib({}, 4096)
    (81559, 4096)
    """
    return int(environment.get("gpu_memory_mib", machine_mib))


def read_gpus(uuid: str = "") -> list[GpuReading]:
    """Return the state of this NVIDIA GPU, or of all here; empty without the driver's tool.

    Reading disturbs a running measurement, so call it only between runs.
    """
    query = "index,utilization.gpu,memory.used,temperature.gpu,clocks.sm"
    return [
        gpu_reading
        for line in _run_nvidia_smi(query, "nounits", uuid=uuid)
        if (gpu_reading := parse_reading(line))
    ]


def parse_reading(line: str) -> GpuReading | None:
    """Parse one line of the driver's tool.

    >>> parse_reading("0, 25, 1, 33, 1980") == GpuReading("0", 0.25, 1048576, 33, 1.98e9)
    True
    >>> parse_reading("1, [N/A], 0, 30, [Not Supported]") == GpuReading("1", None, 0, 30, None)
    True
    """
    index, *fields = [field.strip() for field in line.split(",")]
    if len(fields) != 4:
        return None
    use, memory, temperature, clock = (int(text) if text.isdecimal() else None for text in fields)
    return GpuReading(
        index,
        None if use is None else use / 100,
        None if memory is None else memory * 1024**2,
        temperature,
        None if clock is None else clock * 1e6,
    )


def count_xids(path: str = KERNEL_LOG) -> int | None:
    """Return how many Xid errors the kernel's log holds, None if it cannot be read."""
    try:
        log = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    count = 0
    try:
        for _ in range(KERNEL_RECORDS_MAX):
            # A record may be overwritten before it is read.
            with contextlib.suppress(BrokenPipeError):
                record = os.read(log, KERNEL_RECORD_BYTES)
                if not record:
                    break
                count += XID in record
    except OSError:
        return count
    finally:
        os.close(log)
    return count


def _run_nvidia_smi(query: str, *units: str, uuid: str = "") -> list[str]:
    """Return the lines of nvidia-smi's answer; empty if the tool is missing or fails."""
    command = [
        "nvidia-smi",
        f"--query-gpu={query}",
        f"--format={','.join(('csv', 'noheader', *units))}",
        *([f"--id={uuid}"] if uuid else []),
    ]
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBE_S_MAX, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in process.stdout.splitlines() if line.strip()]
