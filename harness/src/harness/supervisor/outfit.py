"""The device of a run, opened, and what boxes are given so that submissions can use it too."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.devices import gpu
from harness.devices.cpu import Cpu
from harness.devices.cuda import mps, nodes
from harness.devices.device import Device, DeviceFault
from harness.problem import ProblemFault
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

    `tools` are the folders that builders need too, `limits` those of a box that computes; `each`
    is what every rank is told besides, where it has a GPU of its own.
    """

    devices: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: NO_GPU)
    tools: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    each: tuple[Mapping[str, str], ...] = ()


def outfit(name: str, ranks: int = 1, gpus: Sequence[int] = ()) -> Outfit:
    """What this machine has to give so many ranks, each a GPU of these numbers, in order.

    Without numbers they have the first GPUs. Errors: DeviceFault, if a part is missing;
    ProblemFault, if there are more ranks than numbers.
    """
    make = _OUTFITS.get(name)
    if make is None:
        raise DeviceFault(f"there is no device {name!r}, only {', '.join(_OUTFITS)}")
    return make(ranks, gpus)


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
    return gpu.opened(name, is_frozen=is_frozen, ranks=max(1, len(given.each)))


def fitted(workshop: Workshop, architecture: str) -> Workshop:
    """A workshop that builds for a GPU; the same one where there is none."""
    if not architecture:
        return workshop
    told = probe.environment(architecture)
    return replace(workshop, gpu=architecture, environment=told)


def gpus_of(
    ranks: int,
    gpus: list[tuple[int, str]],
    paths: Collection[str],
    numbers: Sequence[int] = (),
) -> list[tuple[int, str]]:
    """The GPUs of so many ranks in order, of those whose nodes are here. Errors: as `outfit`.

    >>> gpus_of(1, [(0, "GPU-a"), (1, "GPU-b")], {"/dev/nvidia1"})
    [(1, 'GPU-b')]
    >>> gpus_of(1, [(0, "GPU-a"), (1, "GPU-b")], {"/dev/nvidia0", "/dev/nvidia1"}, [1])
    [(1, 'GPU-b')]
    """
    if not gpus:
        raise DeviceFault("'cuda' was asked for, and the NVIDIA driver shows no GPU here")
    here = [one for one in gpus if f"/dev/nvidia{one[0]}" in paths]
    # A missing node is told with its mend where it is needed.
    given = here or gpus[:1]
    return [given[number] for number in _numbers(ranks, len(given), numbers)]


def amd(paths: Collection[str], ranks: int = 1, numbers: Sequence[int] = ()) -> Outfit:
    """What AMD GPUs need, of the nodes that are here. Errors: as `outfit`.

    >>> amd(["/dev/kfd", "/dev/dri/renderD128"]).devices
    ('/dev/dri/renderD128', '/dev/kfd')
    """
    if _AMD_NODE not in paths:
        raise DeviceFault(f"'hip' was asked for, and {_AMD_NODE} is not here")
    names = list(map(str, _numbers(ranks, len(paths) - 1, numbers)))
    # A name that stands for the first one is said, since a box inherits no environment.
    told = {"HIP_VISIBLE_DEVICES": ",".join(names)}
    each = _told("HIP_VISIBLE_DEVICES", names)
    return Outfit(tuple(sorted(paths)), ("/sys",), told, probe.shown(), limits(ranks), each)


def nvidia(*each: nodes.Needs) -> Outfit:
    """What the NVIDIA GPU of each rank needs. Errors: DeviceFault, with all that is missing."""
    needs = nodes.joined(each)
    if needs.missing:
        raise DeviceFault("; ".join(needs.missing))
    names = _told("CUDA_VISIBLE_DEVICES", (one.environment["CUDA_VISIBLE_DEVICES"] for one in each))
    shown, environment = needs.read_only, needs.environment
    return Outfit(needs.devices, shown, environment, probe.shown(), limits(len(each)), names)


def limits(ranks: int, each: Limits = GPU_LIMITS) -> Limits:
    """What a box of so many ranks may use: each takes memory and threads of its own.

    >>> limits(1) == GPU_LIMITS, limits(8).processes_max
    (True, 4096)
    """
    return replace(
        each,
        memory_bytes=ranks * each.memory_bytes,
        processes_max=ranks * each.processes_max,
    )


def _numbers(ranks: int, count: int, chosen: Sequence[int]) -> list[int]:
    """Which of a machine's GPUs, counted from 0, so many ranks have."""
    if not chosen:
        if ranks > count:
            raise DeviceFault(f"the problem asks for {ranks} GPUs, and this machine gives {count}")
        return list(range(ranks))
    if ranks > len(chosen):
        # Another agent's GPU is not ours to take.
        raise ProblemFault(
            f"a case asks for {ranks} GPUs, and its job for {len(chosen)}: write multi_gpu: true"
        )
    numbers = list(chosen[:ranks])
    if len(set(numbers)) < ranks:
        raise DeviceFault(f"two ranks were given one GPU: {', '.join(map(str, numbers))}")
    for number in numbers:
        if not 0 <= number < count:
            raise DeviceFault(f"GPU {number} was asked for, and this machine shows {count}")
    return numbers


def _told(variable: str, names: Iterable[str]) -> tuple[Mapping[str, str], ...]:
    """For each of several ranks its GPU, which is the first and only one that it sees."""
    each = tuple({variable: name, "LOCAL_RANK": "0"} for name in names)
    return each if len(each) > 1 else ()


def _nvidia_here(ranks: int, numbers: Sequence[int]) -> Outfit:
    paths = nodes.present()
    pipes = {"CUDA_MPS_PIPE_DIRECTORY": mps.PIPES} if mps.is_running() else None
    gpus = gpus_of(ranks, nodes.installed(), paths, numbers)
    return nvidia(*(nodes.needs(one, paths, mps=pipes) for one in gpus))


def _amd_here(ranks: int, numbers: Sequence[int]) -> Outfit:
    found = [str(path) for path in Path("/dev/dri").glob(_AMD_NODES)]
    return amd([*found, *([_AMD_NODE] if Path(_AMD_NODE).exists() else [])], ranks, numbers)


def _shown(environment: Mapping[str, str]) -> dict[str, str]:
    """Of a box's environment, which GPU it says is there."""
    return {name: environment[name] for name in NO_GPU if name in environment}


def _cpu(ranks: int, _numbers: Sequence[int]) -> Outfit:
    return Outfit(limits=limits(ranks, Limits()))


_OUTFITS: dict[str, Callable[[int, Sequence[int]], Outfit]] = {
    "cpu": _cpu,
    "cuda": _nvidia_here,
    "hip": _amd_here,
}
