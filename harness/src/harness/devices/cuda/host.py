"""What the host provides to use a GPU: nodes and libraries for a box, and NVIDIA's MPS.

MPS lets two contexts run at once; an operator starts its daemon.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.devices.device import DeviceFault

# Created by the driver's tools on the host, because a box may not create or load anything.
_SHARED_NODES = (
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-modeset",
)
_REQUIRED_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm")
_INFORMATION = "/proc/driver/nvidia/gpus"
_DRIVER_VERSION = "/proc/driver/nvidia/version"
_MIG_FOLDER = "/dev/nvidia-caps"
_FOLDERS = ("/sys",)
# The folder of a driver that a container runtime has mounted.
_DRIVER_FOLDERS = ("/usr/local/nvidia",)

MODULE_LOADING = "CUDA_MODULE_LOADING"

CONTROL = "nvidia-cuda-mps-control"
FOLDERS = ("/usr/bin", "/usr/local/nvidia/bin", "/usr/local/bin")
ANSWER_S_MAX = 10.0

# Where a daemon with default settings listens.
MPS_PIPES = "/tmp/nvidia-mps"  # noqa: S108  (the vendor's own place)


@dataclass(frozen=True)
class GpuRequirements:
    """For a BoxSpec: devices to bind, paths to show read-only, environment.

    `missing` are sentences; with any of them, no kernel can run in the box.
    """

    devices: tuple[str, ...]
    read_only: tuple[str, ...]
    environment: dict[str, str]
    missing: tuple[str, ...] = field(default=())


def gpu_requirements(
    gpu: tuple[int, str], paths: Collection[str], mps: Mapping[str, str] | None = None
) -> GpuRequirements:
    """Return what a GPU (minor number, UUID) needs, from the `paths` that exist here.

    `mps` is the environment of a daemon's clients, whose pipes are bound too.
    """
    minor, uuid = gpu
    own_node = f"/dev/nvidia{minor}"
    nodes = [node for node in (own_node, *_SHARED_NODES) if node in paths]
    if uuid.startswith("MIG-"):
        nodes += sorted(path for path in paths if path.startswith(f"{_MIG_FOLDER}/"))
    folders = [path for path in (*_FOLDERS, *_DRIVER_FOLDERS) if path in paths]
    environment = {
        "CUDA_VISIBLE_DEVICES": uuid,
        "CUDA_SCALE_LAUNCH_QUEUES": "4x",
        "CUDA_CACHE_PATH": "/scratch/cache/cuda",
    }
    if mps:
        environment |= mps
        folders.append(mps["CUDA_MPS_PIPE_DIRECTORY"])
    missing_nodes = [node for node in (own_node, *_REQUIRED_NODES) if node not in paths]
    missing = tuple(
        f"{node} does not exist: run nvidia-modprobe on the host" for node in missing_nodes
    )
    return GpuRequirements(tuple(nodes), tuple(folders), environment, missing)


def merge_requirements(each: Sequence[GpuRequirements]) -> GpuRequirements:
    """Return what a box needs whose ranks have one GPU each.

    >>> host = ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"]
    >>> found = merge_requirements([gpu_requirements((1, "GPU-b"), host), gpu_requirements((0,
    ...     "GPU-a"), host)])
    >>> found.environment["CUDA_VISIBLE_DEVICES"], found.devices[0]
    ('GPU-b,GPU-a', '/dev/nvidia1')
    """
    visible = ",".join(requirements.environment["CUDA_VISIBLE_DEVICES"] for requirements in each)
    return GpuRequirements(
        _merge(requirements.devices for requirements in each),
        _merge(requirements.read_only for requirements in each),
        {**each[0].environment, "CUDA_VISIBLE_DEVICES": visible},
        _merge(requirements.missing for requirements in each),
    )


def _merge(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for group in groups for item in group))


def list_gpu_paths() -> frozenset[str]:
    """Return which of the relevant paths exist on this host."""
    nodes = {str(path) for path in Path("/dev").glob("nvidia*")}
    caps = {str(path) for path in Path(_MIG_FOLDER).glob("*")}
    folders = {path for path in (*_FOLDERS, *_DRIVER_FOLDERS) if Path(path).is_dir()}
    return frozenset(nodes | caps | folders)


def parse_gpu(information: str) -> tuple[int, str] | None:
    """Return minor number and UUID from an `information` file; None if one is missing.

    >>> parse_gpu("Model: \\t NVIDIA H200\\nGPU UUID: \\t GPU-00ab\\nDevice Minor: \\t 3\\n")
    (3, 'GPU-00ab')
    """
    minor = re.search(r"^Device Minor:\s*(\d+)\s*$", information, re.MULTILINE)
    uuid = re.search(r"^GPU UUID:\s*(\S+)\s*$", information, re.MULTILINE)
    return (int(minor[1]), uuid[1]) if minor and uuid else None


def list_gpus(folder: Path = Path(_INFORMATION)) -> list[tuple[int, str]]:
    """Return minor number and UUID of each GPU of the driver, without opening any."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(folder.glob("*/information")))
    return sorted(gpu for text in texts if (gpu := parse_gpu(text)))


def is_mps_running(pipes: str = MPS_PIPES) -> bool:
    """Return whether any daemon answers on these pipes."""
    if not (Path(pipes) / "control").exists():
        return False
    question = "get_default_active_thread_percentage"
    return ask_daemon(question, {"CUDA_MPS_PIPE_DIRECTORY": pipes}) is not None


def ask_daemon(question: str, environment: dict[str, str]) -> str | None:
    """Return the daemon's answer, None if none answers in time."""
    try:
        answer = subprocess.run(
            [find_control()],
            input=f"{question}\n",
            env={"PATH": os.defpath, **environment},
            capture_output=True,
            text=True,
            check=True,
            timeout=ANSWER_S_MAX,
        )
    except (OSError, subprocess.SubprocessError, DeviceFault):
        return None
    return answer.stdout.strip()


def module_loading(ranks: int = 1, forced: str = "") -> dict[str, str]:
    """Return the environment that says when a context loads modules; `forced` replaces the rule.

    A context that loads all of torch's modules takes 3 to 5 s on an H100. A lazy one loads a module
    at the first launch of one of its kernels, which happens in the ungated warm-up for each shape.
    Several ranks have no ungated call, and a load behind a closed gate could wait for the gate.

    >>> module_loading(), module_loading(2), module_loading(forced="EAGER")["CUDA_MODULE_LOADING"]
    ({'CUDA_MODULE_LOADING': 'LAZY'}, {'CUDA_MODULE_LOADING': 'EAGER'}, 'EAGER')
    """
    return {MODULE_LOADING: forced or ("LAZY" if ranks == 1 else "EAGER")}


def driver_state() -> tuple[str, ...]:
    """Return what changes when a GPU's driver, its nodes or its MPS daemon is replaced."""
    version = Path(_DRIVER_VERSION)
    state = [version.read_text(encoding="utf-8")] if version.exists() else []
    control = Path(MPS_PIPES) / "control"
    if control.exists():
        status = control.stat()
        state.append(f"{status.st_ino} {status.st_ctime_ns}")
    return (*state, *sorted(list_gpu_paths()))


def become_mps_client(environment: dict[str, str]) -> None:
    """Make this process a client; call it before a context is opened."""
    for name, value in environment.items():
        os.putenv(name, value)


def find_control() -> str:
    """Return the path of the program that controls the daemon. Raises DeviceFault."""
    path = shutil.which(CONTROL, path=os.pathsep.join((*FOLDERS, os.defpath)))
    if path is None:
        raise DeviceFault(f"{CONTROL} is not installed on this machine")
    return path
