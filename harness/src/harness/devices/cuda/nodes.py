"""What a box needs of the host before a process in it can use a GPU: nodes, folders, words."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
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
_INFORMATION = "/proc/driver/nvidia/gpus"
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


def joined(each: Sequence[Needs]) -> Needs:
    """What a box needs whose ranks have a GPU each.

    >>> host = ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"]
    >>> found = joined([needs((1, "GPU-b"), host), needs((0, "GPU-a"), host)])
    >>> found.environment["CUDA_VISIBLE_DEVICES"], found.devices[0]
    ('GPU-b,GPU-a', '/dev/nvidia1')
    """
    visible = ",".join(one.environment["CUDA_VISIBLE_DEVICES"] for one in each)
    return Needs(
        _united(one.devices for one in each),
        _united(one.read_only for one in each),
        {**each[0].environment, "CUDA_VISIBLE_DEVICES": visible},
        _united(one.missing for one in each),
    )


def _united(each: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Every word once, in the order in which they come."""
    return tuple(dict.fromkeys(word for words in each for word in words))


def present() -> frozenset[str]:
    """Which of the paths that matter exist on this host."""
    nodes = {str(path) for path in Path("/dev").glob("nvidia*")}
    caps = {str(path) for path in Path(_MIG_FOLDER).glob("*")}
    folders = {path for path in (*_FOLDERS, *_DRIVER_FOLDERS) if Path(path).is_dir()}
    return frozenset(nodes | caps | folders)


def gpu_of(information: str) -> tuple[int, str] | None:
    """Minor number and UUID in a device's `information` file; None if it does not say both.

    >>> gpu_of("Model: \\t NVIDIA H200\\nGPU UUID: \\t GPU-00ab\\nDevice Minor: \\t 3\\n")
    (3, 'GPU-00ab')
    """
    minor = re.search(r"^Device Minor:\s*(\d+)\s*$", information, re.MULTILINE)
    uuid = re.search(r"^GPU UUID:\s*(\S+)\s*$", information, re.MULTILINE)
    return (int(minor[1]), uuid[1]) if minor and uuid else None


def installed(folder: Path = Path(_INFORMATION)) -> list[tuple[int, str]]:
    """Minor number and UUID of each GPU that the driver has here; it opens none of them."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(folder.glob("*/information")))
    return sorted(gpu for text in texts if (gpu := gpu_of(text)))
