"""The device of a run, opened, and what boxes are given so that submissions can use it too."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.devices import gpu
from harness.devices.cpu import Cpu
from harness.devices.cuda import mps, nodes
from harness.devices.device import Device, DeviceFault
from harness.sandbox.spec import Limits
from harness.supervisor import settings
from harness.supervisor.defences import Defences
from harness.toolchains import probe
from harness.toolchains.plan import Workshop

GPU_LIMITS = Limits(
    memory_bytes=16 * 1024**3,
    processes_max=512,
    files_max=4096,
    file_bytes_max=1024**3,
    scratch_bytes=1024**3,
)

# Whoever is not to use a GPU is not to see one, whatever the machine has.
NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}
# Of a run alone. The first: some author's checks ask torch for deterministic products, which it
# refuses without this; the second: to ask whether there is a GPU starts no driver.
_OF_A_RUN = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}

_AMD_NODE = "/dev/kfd"
_AMD_NODES = "renderD*"


@dataclass(frozen=True)
class Outfit:
    """What boxes need for a device: nodes, folders and environment if they compute on it.

    `tools` are the folders that builders need too, `limits` those of a box that computes.
    """

    devices: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: NO_GPU)
    tools: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)


def outfit(name: str) -> Outfit:
    """What this machine has to give for a device. Errors: DeviceFault, if a part is missing."""
    make = _OUTFITS.get(name)
    if make is None:
        raise DeviceFault(f"there is no device {name!r}, only {', '.join(_OUTFITS)}")
    return make()


def opened(name: str, given: Outfit, walls: Collection[str], defences: Defences) -> Device:
    """The device, prepared in this process, which sees no GPU but that. Errors: DeviceFault."""
    is_frozen = defences.freezes and "freezer" in walls
    if name == "cpu":
        settings.add(NO_GPU)
        device = Cpu(
            is_frozen=is_frozen,
            is_sealed=defences.seals,
            is_early=defences.starts_before_thaw,
            is_late=defences.stops_after_snapshot,
        )
        device.prepare()
        return device
    settings.add(_OF_A_RUN | _shown(given.environment))
    return gpu.opened(name, is_frozen=is_frozen)


def fitted(workshop: Workshop, architecture: str) -> Workshop:
    """A workshop that builds for a GPU; the same one where there is none."""
    if not architecture:
        return workshop
    told = probe.environment(architecture)
    return replace(workshop, gpu=architecture, environment=told)


def first_gpu(gpus: list[tuple[int, str]], paths: Collection[str]) -> tuple[int, str]:
    """The GPU that runs use: the first whose node is here. Errors: DeviceFault.

    >>> first_gpu([(0, "GPU-a"), (1, "GPU-b")], {"/dev/nvidia1"})
    (1, 'GPU-b')
    """
    if not gpus:
        raise DeviceFault("'cuda' was asked for, and the NVIDIA driver shows no GPU here")
    here = (one for one in gpus if f"/dev/nvidia{one[0]}" in paths)
    return next(here, gpus[0])


def amd(paths: Collection[str]) -> Outfit:
    """What an AMD GPU needs, of the nodes that are here. Errors: DeviceFault.

    >>> amd(["/dev/kfd", "/dev/dri/renderD128"]).devices
    ('/dev/dri/renderD128', '/dev/kfd')
    """
    if _AMD_NODE not in paths:
        raise DeviceFault(f"'hip' was asked for, and {_AMD_NODE} is not here")
    # A name that stands for the first one is said, since a box inherits no environment.
    told = {"HIP_VISIBLE_DEVICES": "0"}
    return Outfit(tuple(sorted(paths)), ("/sys",), told, probe.shown(), GPU_LIMITS)


def nvidia(needs: nodes.Needs) -> Outfit:
    """What an NVIDIA GPU needs. Errors: DeviceFault, with all that is missing."""
    if needs.missing:
        raise DeviceFault("; ".join(needs.missing))
    return Outfit(needs.devices, needs.read_only, needs.environment, probe.shown(), GPU_LIMITS)


def _nvidia_here() -> Outfit:
    paths = nodes.present()
    pipes = {"CUDA_MPS_PIPE_DIRECTORY": mps.PIPES} if mps.is_running() else None
    return nvidia(nodes.needs(first_gpu(nodes.installed(), paths), paths, mps=pipes))


def _amd_here() -> Outfit:
    found = [str(path) for path in Path("/dev/dri").glob(_AMD_NODES)]
    return amd([*found, *([_AMD_NODE] if Path(_AMD_NODE).exists() else [])])


def _shown(environment: Mapping[str, str]) -> dict[str, str]:
    """Of a box's environment, which GPU it says is there."""
    return {name: environment[name] for name in NO_GPU if name in environment}


_OUTFITS: dict[str, Callable[[], Outfit]] = {
    "cpu": Outfit,
    "cuda": _nvidia_here,
    "hip": _amd_here,
}
