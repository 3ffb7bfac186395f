"""What a box needs of the host before a process in it can use a GPU: nodes, folders, words."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

# Made by the driver's own tools on the host: nothing inside a box may make or load anything.
_SHARED_NODES = (
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-modeset",
)
_NEEDED = ("/dev/nvidiactl", "/dev/nvidia-uvm")
_MIG_FOLDER = "/dev/nvidia-caps"
_LIBRARY = re.compile(r"lib(cuda|nvidia-ml|nvidia-ptxjitcompiler|nvidia-nvvm|cudadebugger)\.so\b")
_FOLDERS = ("/sys",)
# A driver that a container runtime mounted lies in a folder of its own.
_DRIVER_FOLDERS = ("/usr/local/nvidia",)


@dataclass(frozen=True)
class Needs:
    """For a box's Spec: devices to bind with their node, paths to show read-only, environment.

    `missing` are sentences: with any of them a kernel cannot run in the box.
    """

    devices: tuple[str, ...]
    read_only: tuple[str, ...]
    environment: dict[str, str]
    missing: tuple[str, ...] = field(default=())


def needs(
    gpu: tuple[int, str],
    paths: Collection[str],
    libraries: Iterable[str] = (),
    mps: Mapping[str, str] | None = None,
) -> Needs:
    """What the GPU of a minor number and UUID needs, of the `paths` that exist on this host.

    `libraries` are files of the dynamic loader's cache; `mps` the environment of a daemon's
    clients, whose pipes are bound too.

    >>> found = needs((0, "GPU-1"), ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/sys"])
    >>> found.devices, found.read_only, found.missing
    (('/dev/nvidia0', '/dev/nvidiactl', '/dev/nvidia-uvm'), ('/sys',), ())
    """
    minor, uuid = gpu
    own = f"/dev/nvidia{minor}"
    nodes = [node for node in (own, *_SHARED_NODES) if node in paths]
    if uuid.startswith("MIG-"):
        nodes += sorted(path for path in paths if path.startswith(f"{_MIG_FOLDER}/"))
    folders = [path for path in (*_FOLDERS, *_DRIVER_FOLDERS) if path in paths]
    driver = sorted(path for path in libraries if _LIBRARY.search(path))
    environment = {
        "CUDA_VISIBLE_DEVICES": uuid,
        # Nothing may be loaded while a gate is shut: the load would wait for the gate.
        "CUDA_MODULE_LOADING": "EAGER",
        "CUDA_SCALE_LAUNCH_QUEUES": "4x",
        "CUDA_CACHE_PATH": "/scratch/cache/cuda",
    }
    if mps:
        environment |= mps
        folders.append(mps["CUDA_MPS_PIPE_DIRECTORY"])
    lacking = [node for node in (own, *_NEEDED) if node not in paths]
    missing = tuple(f"{node} is not there: run nvidia-modprobe on the host" for node in lacking)
    return Needs(tuple(nodes), (*folders, *driver), environment, missing)


def present() -> frozenset[str]:
    """Which of the paths that matter exist on this host."""
    nodes = {str(path) for path in Path("/dev").glob("nvidia*")}
    caps = {str(path) for path in Path(_MIG_FOLDER).glob("*")}
    folders = {path for path in (*_FOLDERS, *_DRIVER_FOLDERS) if Path(path).is_dir()}
    return frozenset(nodes | caps | folders)


def minor_of(information: str) -> int | None:
    """The minor number in a device's `information` file below /proc/driver/nvidia/gpus.

    >>> minor_of("Model: \\t NVIDIA H200\\nDevice Minor: \\t 3\\n")
    3
    """
    found = re.search(r"^Device Minor:\s*(\d+)\s*$", information, re.MULTILINE)
    return int(found[1]) if found else None
