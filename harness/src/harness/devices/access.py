"""Opens the device of a run, and finds what boxes need so that submissions can use it too.

A GPU without a gate is opened here as a `LocalDevice`, of tier G0.

As a program, it takes the device's name, the GPU's number and the walls, opens the device in a
process of its own, and prints what it is as a line of JSON. Without arguments it lists the GPUs
that CUDA's driver reports.
"""

import ctypes
import importlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from harness.defences import ALL_DEFENCES, Defences
from harness.devices.cuda import host
from harness.devices.cuda.device import CudaDevice
from harness.devices.cuda.driver import Driver
from harness.devices.cuda.multi_gpu import MultiGpuDevice
from harness.devices.cuda.rules import architecture_name, flush_bytes
from harness.devices.device import CpuDevice, Device, DeviceFault, SharedMemory, Window
from harness.problem import ProblemFault
from harness.sandbox import settings
from harness.sandbox.box import Limits

# Of a local device: the place of its claim, and the side of the product that warms it up.
CLAIM_BYTES = 4096
FMA_SIDE = 1024

GPU_LIMITS = Limits(
    memory_bytes=16 * 1024**3,
    processes_max=512,
    files_max=4096,
    file_bytes_max=1024**3,
    scratch_bytes=1024**3,
)

# Processes that must not use a GPU must not see one.
NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}
# For runs alone. The first: some authors' checks ask torch for deterministic products, which it
# refuses without this. The second: asking whether there is a GPU must not start the driver.
_RUN_ENVIRONMENT = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}

_AMD_NODE = "/dev/kfd"
_AMD_NODES = "renderD*"
_AMD_NAME = "/sys/class/drm/{node}/device/product_name"
_CUDA_LIBRARY = "libcuda.so.1"
_NAME_BYTES_MAX = 256

NAMES = ("cuda", "hip")

# Time to import torch, open a GPU and compile for it.
_PROBE_S_MAX = 180.0


class LocalMemory:
    """Memory of the device here, and host memory where the worker sees it."""

    def __init__(self, size: int, place: str, claim: dict[str, Any]) -> None:
        torch: Any = importlib.import_module("torch")
        self.size = size
        self._shared = SharedMemory(size + CLAIM_BYTES)
        self.descriptor = self._shared.descriptor
        self.bytes: Any = torch.zeros(size, dtype=torch.uint8, device=place)
        self.layout = {"kind": "local", "bytes": size + CLAIM_BYTES, "claim": size, **claim}
        self._claim = self._shared.bytes[size : size + 16].view(torch.float64)

    def push(self) -> None:
        """Copy the device's content to where the worker sees it."""
        self._shared.bytes[: self.size].copy_(self.bytes)

    def pull(self) -> None:
        """Copy what the worker wrote back to the device."""
        self.bytes.copy_(self._shared.bytes[: self.size])

    def claim(self) -> tuple[float, bool]:
        """Return the worker's claimed microseconds, and whether its launch was visible."""
        time_us, is_dry = self._claim.tolist()
        return time_us, bool(is_dry)

    def close(self) -> None:
        """Release both memories."""
        self.bytes = None
        self._claim = None
        self._shared.close()


class LocalDevice(Device):
    """A GPU through torch alone, timed inside the worker's process: for developers.

    `name` is cuda or hip, both called cuda by torch. The worker empties the caches before its own
    clock starts. These times are claims, marked as such and never ranked, so they need neither
    calibration nor checks.
    """

    tier = "G0"
    place = "cuda:0"

    def __init__(self, name: str) -> None:
        self.name = name

    def prepare(self) -> None:
        """Open the device. Raises DeviceFault."""
        torch: Any = importlib.import_module("torch")
        self._torch = torch
        is_hip = getattr(torch.version, "hip", None) is not None
        if is_hip != (self.name == "hip"):
            raise DeviceFault(f"{self.name} was requested, but this torch is built without it")
        try:
            torch.cuda.init()
            self._properties = torch.cuda.get_device_properties(self.place)
            self._square = torch.rand(FMA_SIDE, FMA_SIDE, device=self.place)
            self.architecture = torch_architecture(self._properties)
        except (AssertionError, RuntimeError) as error:
            raise DeviceFault(f"torch cannot use {self.place}: {error}") from error

    def describe(self) -> dict[str, str]:
        """Return what a result should record about the device."""
        properties = self._properties
        return {
            "gpu": str(properties.name),
            "gpu_memory_mib": str(properties.total_memory // 1024**2),
            "multiprocessors": str(properties.multi_processor_count),
            "flush_mib": str(self._flush_bytes() // 1024**2),
        }

    def allocate(self, size: int, role: str) -> LocalMemory:
        """Return memory for a role; the claim lies beside the inputs."""
        claim = {"flush": self._flush_bytes()} if role == "inputs" else {}
        return LocalMemory(size, self.place, claim)

    def timed(self, window: Window) -> float:
        """Return the worker's claim for one call, in microseconds, limited by the wall clock."""
        pairs = cast("list[tuple[LocalMemory, LocalMemory]]", window.memories)
        window.show()
        for inputs, outputs in pairs:
            inputs.push()
            outputs.push()
        self._torch.cuda.synchronize()
        began = time.perf_counter_ns()
        window.go()
        window.wait()
        wall_us = (time.perf_counter_ns() - began) / 1000
        for _, outputs in pairs:
            outputs.pull()
        window.hold()
        claims = [inputs.claim() for inputs, _ in pairs]
        claim_us = max(claim for claim, _ in claims)
        self.flags = ("in_process", "dry") if any(dry for _, dry in claims) else ("in_process",)
        return claim_us if 0 < claim_us <= wall_us else wall_us

    def time_fma(self) -> float:
        """Time a product of matrices, in microseconds."""
        before, after = (self._torch.cuda.Event(enable_timing=True) for _ in "12")
        before.record()
        self._torch.mm(self._square, self._square)
        after.record()
        after.synchronize()
        return 1000 * float(before.elapsed_time(after))

    def close(self) -> None:
        """Release the device."""
        self._square = None

    def _flush_bytes(self) -> int:
        cache = int(getattr(self._properties, "L2_cache_size", 0))
        return flush_bytes(str(self._properties.name), cache)


def torch_architecture(properties: Any) -> str:
    """Return the compiler's name of the device that torch describes.

    >>> from types import SimpleNamespace as Properties
    >>> torch_architecture(Properties(gcnArchName="gfx942:sramecc+:xnack-"))
    'gfx942'
    >>> torch_architecture(Properties(major=9, minor=0))
    'sm_90a'
    """
    if name := getattr(properties, "gcnArchName", ""):
        return str(name).partition(":")[0]
    return architecture_name((properties.major, properties.minor))


@dataclass(frozen=True)
class DeviceAccess:
    """What boxes that compute on a device need: device nodes, folders and environment.

    `limits` are those of a box that computes; `each` is the environment of every rank, if each has
    a GPU of its own.
    """

    devices: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: NO_GPU)
    limits: Limits = field(default_factory=Limits)
    each: tuple[Mapping[str, str], ...] = ()


def find_device_access(
    name: str, ranks: int = 1, gpus: Sequence[int] = (), *, module_loading: str = ""
) -> DeviceAccess:
    """Return what this machine gives to this many ranks, on the GPUs of these numbers.

    Without numbers, ranks get the first GPUs. `module_loading` replaces what
    `host.module_loading` decides. Raises DeviceFault if a part is missing, ProblemFault
    if there are more ranks than numbers.
    """
    match name:
        case "cpu":
            return DeviceAccess(limits=limits_of_ranks(ranks, Limits()))
        case "cuda":
            loading = host.module_loading(ranks, module_loading)
            access = _find_nvidia_access(ranks, gpus)
            return replace(access, environment={**access.environment, **loading})
        case "hip":
            return _find_amd_access(ranks, gpus)
    raise DeviceFault(f"there is no device {name!r}, only cpu, cuda, hip")


def open_device(
    name: str, access: DeviceAccess, walls: Collection[str], defences: Defences
) -> Device:
    """Open the device in this process, which sees no other GPU. Raises DeviceFault."""
    is_frozen = defences.freezes and "freezer" in walls
    if name == "cpu":
        settings.add_environment(NO_GPU)
        device = CpuDevice(is_frozen=is_frozen, defences=defences)
        device.prepare()
        return device
    visible_gpus = {name: access.environment[name] for name in NO_GPU if name in access.environment}
    settings.add_environment(_RUN_ENVIRONMENT | visible_gpus)
    return open_gpu(
        name,
        is_frozen=is_frozen,
        ranks=max(1, len(access.each)),
        module_loading=access.environment.get(host.MODULE_LOADING, ""),
    )


def assign_gpus(
    ranks: int, gpus: list[tuple[int, str]], paths: Collection[str], numbers: Sequence[int] = ()
) -> list[tuple[int, str]]:
    """Assign GPUs to ranks in order, from those whose nodes exist.

    Raises the same errors as `find_device_access`.
    """
    if not gpus:
        raise DeviceFault("'cuda' was requested, but the NVIDIA driver finds no GPU here")
    visible = [gpu for gpu in gpus if f"/dev/nvidia{gpu[0]}" in paths]
    # A missing node is reported with its fix where it is needed.
    candidates = visible or gpus[:1]
    return [candidates[number] for number in _numbers(ranks, len(candidates), numbers)]


def amd_access(paths: Collection[str], ranks: int = 1, numbers: Sequence[int] = ()) -> DeviceAccess:
    """Return what AMD GPUs need, from the nodes that exist.

    Raises the same errors as `find_device_access`.
    """
    if _AMD_NODE not in paths:
        raise DeviceFault(f"'hip' was requested, but {_AMD_NODE} does not exist")
    names = list(map(str, _numbers(ranks, len(paths) - 1, numbers)))
    # The default is set explicitly, because a box inherits no environment.
    environment = {"HIP_VISIBLE_DEVICES": ",".join(names)}
    each = _rank_environments("HIP_VISIBLE_DEVICES", names)
    nodes = tuple(sorted(paths))
    return DeviceAccess(nodes, ("/sys",), environment, limits_of_ranks(ranks), each)


def nvidia_access(*each: host.GpuRequirements) -> DeviceAccess:
    """Return what the NVIDIA GPU of each rank needs. Raises DeviceFault for missing parts."""
    needs = host.merge_requirements(each)
    if needs.missing:
        raise DeviceFault("; ".join(needs.missing))
    names = _rank_environments(
        "CUDA_VISIBLE_DEVICES",
        (rank_needs.environment["CUDA_VISIBLE_DEVICES"] for rank_needs in each),
    )
    limits = limits_of_ranks(len(each))
    return DeviceAccess(needs.devices, needs.read_only, needs.environment, limits, names)


def limits_of_ranks(ranks: int, each: Limits = GPU_LIMITS) -> Limits:
    """Return the limits of a box; each rank gets its own memory and threads."""
    memory_bytes, processes_max = ranks * each.memory_bytes, ranks * each.processes_max
    return replace(each, memory_bytes=memory_bytes, processes_max=processes_max)


def _numbers(ranks: int, count: int, chosen: Sequence[int]) -> list[int]:
    """Return which of a machine's GPUs, counted from 0, the ranks use."""
    if not chosen:
        if ranks > count:
            raise DeviceFault(f"the problem needs {ranks} GPUs, but this machine has {count}")
        return list(range(ranks))
    if ranks > len(chosen):
        # The other GPUs belong to other agents.
        raise ProblemFault(
            f"a case needs {ranks} GPUs, but its job has {len(chosen)}: set multi_gpu: true"
        )
    numbers = list(chosen[:ranks])
    if len(set(numbers)) < ranks:
        raise DeviceFault(f"two ranks have the same GPU: {', '.join(map(str, numbers))}")
    for number in numbers:
        if not 0 <= number < count:
            raise DeviceFault(f"GPU {number} was requested, but this machine has {count}")
    return numbers


def _rank_environments(variable: str, names: Iterable[str]) -> tuple[Mapping[str, str], ...]:
    """Return for each of several ranks its GPU, the only one that it sees."""
    each = tuple({variable: name, "LOCAL_RANK": "0"} for name in names)
    return each if len(each) > 1 else ()


def _find_nvidia_access(ranks: int, numbers: Sequence[int]) -> DeviceAccess:
    paths = host.list_gpu_paths()
    pipes = {"CUDA_MPS_PIPE_DIRECTORY": host.MPS_PIPES} if host.is_mps_running() else None
    gpus = assign_gpus(ranks, host.list_gpus(), paths, numbers)
    return nvidia_access(*(host.gpu_requirements(gpu, paths, mps=pipes) for gpu in gpus))


def _find_amd_access(ranks: int, numbers: Sequence[int]) -> DeviceAccess:
    nodes_found = [str(path) for path in Path("/dev/dri").glob(_AMD_NODES)]
    return amd_access(
        [*nodes_found, *([_AMD_NODE] if Path(_AMD_NODE).exists() else [])], ranks, numbers
    )


def open_gpu(name: str, *, is_frozen: bool, ranks: int = 1, module_loading: str = "") -> Device:
    """Open the device at the best tier that it can provide. Raises DeviceFault.

    Each of several `ranks` has its own GPU: the first ones that this process sees. If an MPS daemon
    answers, this process becomes its client.
    """
    if name not in NAMES:
        raise DeviceFault(f"there is no GPU device {name!r}, only {' and '.join(NAMES)}")
    # No gate has been proven on an AMD GPU, so its times never rank.
    local = LocalDevice(name)
    if name == "cuda":
        is_running = host.is_mps_running()
        pipes = {"CUDA_MPS_PIPE_DIRECTORY": host.MPS_PIPES} if is_running else {}
        host.become_mps_client(host.module_loading(ranks, module_loading) | pipes)
        device: CudaDevice | MultiGpuDevice
        if ranks > 1:
            device = MultiGpuDevice(ranks, is_frozen=is_frozen)
        else:
            device = CudaDevice(is_frozen=is_frozen, runs_beside=is_running)
        device.prepare()
        if device.tier != "G0":
            return device
    local.prepare()
    return local


@dataclass(frozen=True)
class DeviceInfo:
    """A device that works: its timing tier, and what results should record about it."""

    tier: str
    environment: dict[str, str]


@dataclass(frozen=True)
class FoundGpu:
    """A GPU of this machine: its device, the number by which agents name it, and its full name."""

    device: str
    index: int
    name: str


def find_gpus() -> list[FoundGpu]:
    """Return the GPUs that CUDA's driver and AMD's kernel driver report, without opening any.

    CUDA's driver is asked in a separate process, because it stays in the process that asks it.
    """
    amd_nodes = sorted(Path("/dev/dri").glob(_AMD_NODES)) if Path(_AMD_NODE).exists() else []
    amd_gpus = [
        FoundGpu("hip", index, _amd_name(node.name)) for index, node in enumerate(amd_nodes)
    ]
    try:
        ctypes.CDLL(_CUDA_LIBRARY)
        process = _run_self()
    except (OSError, subprocess.SubprocessError):
        return amd_gpus
    last = process.stdout.decode().strip().rpartition("\n")[2]
    cuda_gpus = json.loads(last) if process.returncode == 0 else []
    return [FoundGpu(**gpu) for gpu in cuda_gpus] + amd_gpus


def list_cuda_gpus(driver: Driver, numbers: Mapping[str, int]) -> list[FoundGpu]:
    """Return the GPUs of a driver, numbered by their UUID, else in the driver's order.

    Raises DeviceFault.
    """
    gpus = []
    for position in range(driver.number("cuDeviceGetCount")):
        device = driver.number("cuDeviceGet", position)
        name = ctypes.create_string_buffer(_NAME_BYTES_MAX)
        driver("cuDeviceGetName", name, _NAME_BYTES_MAX, device)
        identity = ctypes.create_string_buffer(16)
        driver("cuDeviceGetUuid_v2", identity, device)
        number = numbers.get(f"GPU-{uuid.UUID(identity.raw.hex())}", position)
        gpus.append(FoundGpu("cuda", number, name.value.decode()))
    return sorted(gpus, key=lambda gpu: gpu.index)


def _amd_name(node: str) -> str:
    try:
        name = Path(_AMD_NAME.format(node=node)).read_text(encoding="utf-8").strip()
    except OSError:
        name = ""
    return name or "AMD GPU"


def _run_self(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
    """Run this module as a program. Raises the errors of subprocess."""
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-I", "-m", __name__, *arguments],
        env=environment,
        capture_output=True,
        timeout=_PROBE_S_MAX,
        check=False,
    )


def probe_device(name: str, walls: Collection[str], gpu: int = 0) -> DeviceInfo:
    """Return what a run on this device, or on this GPU of several, would have.

    Raises DeviceFault.
    """
    if name == "cpu":
        return DeviceInfo("C1" if "freezer" in walls else "C2", {})
    try:
        process = _run_self(name, str(gpu), *walls)
    except subprocess.TimeoutExpired as error:
        raise DeviceFault(f"{name!r} did not open within {_PROBE_S_MAX:.0f} s") from error
    return parse_device_info(process.returncode, process.stdout, process.stderr)


def parse_device_info(status: int, stdout: bytes, stderr: bytes) -> DeviceInfo:
    """Interpret how the program ended. Raises DeviceFault.

    >>> output = b'a library spoke\\n{"tier": "G1", "environment": {"gpu": "NVIDIA H200"}}'
    >>> parse_device_info(0, output, b"")
    DeviceInfo(tier='G1', environment={'gpu': 'NVIDIA H200'})
    """
    if status:
        last = stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise DeviceFault(last or f"looking at the device ended with status {status}")
    return DeviceInfo(**json.loads(stdout.decode().strip().rpartition("\n")[2]))


def main(arguments: Sequence[str]) -> None:
    """Open the device and print what it is, or list the GPUs; exit with a message on failure."""
    try:
        if not arguments:
            paths = host.list_gpu_paths()
            uuids = [uuid_ for minor, uuid_ in host.list_gpus() if f"/dev/nvidia{minor}" in paths]
            gpus = list_cuda_gpus(Driver(), {uuid_: at for at, uuid_ in enumerate(uuids)})
            print(json.dumps([asdict(gpu) for gpu in gpus]))  # noqa: T201
            return
        name, gpu, *walls = arguments
        device = open_device(name, find_device_access(name, gpus=[int(gpu)]), walls, ALL_DEFENCES)
        info = {"tier": device.tier, "environment": device.describe()}
    except DeviceFault as fault:
        sys.exit(str(fault))
    print(json.dumps(info))  # noqa: T201  (the program's output)


if __name__ == "__main__":
    main(sys.argv[1:])
