"""What boxes get to use a device, and what a run sees of it."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from harness.build.plan import BuildCache, BuildTools, adapt_tools
from harness.build.teams import Machine, WorkerSetup, WorkerTeams
from harness.devices.access import (
    GPU_LIMITS,
    NO_GPU,
    DeviceAccess,
    amd_access,
    assign_gpus,
    find_device_access,
    nvidia_access,
)
from harness.devices.cuda.host import gpu_requirements
from harness.devices.device import DeviceFault
from harness.problem import AuthorActivity, ProblemFault, RunDirectory, load_problem
from harness.sandbox.box import WALLS, Limits
from harness.sandbox.launcher import ZygoteLauncher
from harness.supervisor.folders import RunFolder, prepare_run_directory
from tests.support.harness import HONEST, Host

HOST = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/sys")
SHOP = BuildTools({}, {"PATH": "/usr/bin"}, (), "", "x86_64", folders=("/opt/cuda",))
MACHINE = Machine(cast("ZygoteLauncher", None), WALLS, SHOP, cast("BuildCache", None))


def test_a_box_of_the_processor_sees_no_gpu() -> None:
    assert find_device_access("cpu") == DeviceAccess()
    assert DeviceAccess().devices == ()
    assert DeviceAccess().environment == NO_GPU
    assert DeviceAccess().limits == Limits()


def test_a_box_of_a_gpu_has_its_nodes_and_larger_limits() -> None:
    given = nvidia_access(gpu_requirements((0, "GPU-a"), HOST))
    assert given.devices == ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm")
    assert given.environment["CUDA_VISIBLE_DEVICES"] == "GPU-a"
    assert given.limits == GPU_LIMITS
    assert (GPU_LIMITS.files_max, GPU_LIMITS.processes_max) == (4096, 512)
    assert GPU_LIMITS.memory_bytes == 16 * GPU_LIMITS.scratch_bytes == 16 * 1024**3


def test_a_node_that_is_missing_is_the_machines_fault() -> None:
    with pytest.raises(DeviceFault, match="/dev/nvidia-uvm does not exist: run nvidia-modprobe"):
        nvidia_access(gpu_requirements((0, "GPU-a"), HOST[:2]))


@pytest.mark.parametrize("name", ["cuda", "hip", "tpu", ""])
def test_a_device_that_is_not_here_is_named(name: str) -> None:
    with pytest.raises(DeviceFault, match=repr(name)):
        find_device_access(name)


def test_the_first_gpu_without_a_node_is_asked_for_by_name() -> None:
    assert assign_gpus(1, [(3, "GPU-d")], set()) == [(3, "GPU-d")]
    with pytest.raises(DeviceFault):
        assign_gpus(1, [], {"/dev/nvidia0"})


def test_ranks_have_the_gpus_that_are_here_in_order() -> None:
    gpus = [(0, "GPU-a"), (1, "GPU-b"), (2, "GPU-c")]
    assert assign_gpus(2, gpus, {"/dev/nvidia0", "/dev/nvidia2"}) == [gpus[0], gpus[2]]


def test_more_ranks_than_gpus_are_refused_with_both_numbers() -> None:
    with pytest.raises(DeviceFault, match="needs 4 GPUs, but this machine has 2"):
        assign_gpus(4, [(0, "GPU-a"), (1, "GPU-b")], {"/dev/nvidia0", "/dev/nvidia1"})
    with pytest.raises(DeviceFault, match="needs 2 GPUs, but this machine has 1"):
        amd_access(["/dev/dri/renderD128", "/dev/kfd"], 2)


def test_ranks_have_the_gpus_of_their_agents_in_order() -> None:
    gpus = [(0, "GPU-a"), (1, "GPU-b"), (2, "GPU-c")]
    here = {f"/dev/nvidia{minor}" for minor, _ in gpus}
    assert assign_gpus(2, gpus, here, [2, 0]) == [gpus[2], gpus[0]]
    assert assign_gpus(1, gpus, here, [1]) == [gpus[1]]
    # A number is of those that are here; one rank of two has the first agent's.
    assert assign_gpus(1, gpus, here - {"/dev/nvidia0"}, [1, 0]) == [gpus[2]]
    given = amd_access(["/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/kfd"], 2, [1, 0])
    assert given.environment["HIP_VISIBLE_DEVICES"] == "1,0"
    assert [one["HIP_VISIBLE_DEVICES"] for one in given.each] == ["1", "0"]


@pytest.mark.parametrize(
    ("numbers", "fault", "said"),
    [
        ([0, 2], DeviceFault, "GPU 2 was requested, but this machine has 2"),
        ([0, -1], DeviceFault, "GPU -1 was requested"),
        ([1, 1], DeviceFault, "two ranks have the same GPU: 1, 1"),
        ([1], ProblemFault, "needs 2 GPUs, but its job has 1: set multi_gpu: true"),
    ],
)
def test_a_gpu_that_is_not_there_or_not_ours_is_not_taken(
    numbers: list[int], fault: type[Exception], said: str
) -> None:
    gpus = [(0, "GPU-a"), (1, "GPU-b")]
    with pytest.raises(fault, match=said):
        assign_gpus(2, gpus, {"/dev/nvidia0", "/dev/nvidia1"}, numbers)
    with pytest.raises(fault, match=said):
        amd_access(["/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/kfd"], 2, numbers)


def prepare(host: Host, folder: Path) -> RunDirectory:
    """Prepare a run in a folder."""
    request = host.request(HONEST)
    problem = load_problem(Path(request.problem))
    return prepare_run_directory(request, problem, RunFolder.make(folder))


def test_each_rank_sees_its_own_gpu_alone(host: Host, tmp_path: Path) -> None:
    nodes = (*HOST, "/dev/nvidia1")
    given = nvidia_access(
        gpu_requirements((0, "GPU-a"), nodes), gpu_requirements((1, "GPU-b"), nodes)
    )
    assert given.environment["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert {"/dev/nvidia0", "/dev/nvidia1"} <= set(given.devices)
    directory = prepare(host, tmp_path)
    setup = WorkerSetup(MACHINE, [], given)
    worker_teams: Any = WorkerTeams(setup, directory, "test", 2)
    told = [worker_teams._rank_environment(rank, 2) for rank in range(2)]
    directory.leave()
    assert [one["CUDA_VISIBLE_DEVICES"] for one in told] == ["GPU-a", "GPU-b"]
    # Of the GPUs that it sees, its own is the first.
    assert [(one["RANK"], one["LOCAL_RANK"]) for one in told] == [("0", "0"), ("1", "0")]
    assert nvidia_access(gpu_requirements((0, "GPU-a"), HOST)).each == ()


def test_an_amd_gpu_is_its_nodes() -> None:
    given = amd_access(["/dev/dri/renderD128", "/dev/kfd"])
    assert "/dev/kfd" in given.devices
    assert "CUDA_VISIBLE_DEVICES" not in given.environment
    with pytest.raises(DeviceFault):
        amd_access(["/dev/dri/renderD128"])


def test_a_workshop_is_fitted_to_the_gpu_of_the_run() -> None:
    assert adapt_tools(SHOP, "") is SHOP
    assert adapt_tools(SHOP, "sm_90a").gpu == "sm_90a"


def test_a_builder_has_no_gpu_and_a_profiler_has_the_limits_of_both(
    host: Host, tmp_path: Path
) -> None:
    given = DeviceAccess(("/dev/nvidia0",), ("/sys",), {"CUDA_VISIBLE_DEVICES": "GPU-a"})
    directory = prepare(host, tmp_path)
    setup = WorkerSetup(MACHINE, [2, 3], given, build_cores=(4,))
    worker_teams = WorkerTeams(setup, directory, "test", 1)
    worker, builder, profiler = (
        worker_teams.worker(1),
        worker_teams.builder(),
        worker_teams.profiler(("/x",)),
    )
    directory.leave()
    assert worker.devices == profiler.devices == ("/dev/nvidia0",)
    assert builder.devices == ()
    # What is built disturbs no run that is timed.
    assert (worker.cores, builder.cores) == ((2, 3), (4,))
    assert builder.limits.cpu_weight < worker.limits.cpu_weight or MACHINE.slots > 1
    assert worker.read_only == ("/opt/cuda", "/sys")
    assert builder.read_only == ("/opt/cuda",)
    assert profiler.read_only == ("/opt/cuda", "/sys", "/x")
    assert worker.environment["CUDA_VISIBLE_DEVICES"] == "GPU-a"
    assert builder.environment["CUDA_VISIBLE_DEVICES"] == ""
    assert profiler.limits.memory_bytes == builder.limits.memory_bytes > worker.limits.memory_bytes


@pytest.mark.parametrize(("asked", "expected"), [(0, 1024**3), (1200, 1200 * 1024**2), (2**30, 0)])
def test_a_box_has_the_memory_that_its_problem_asks_for(
    tmp_path: Path, asked: int, expected: int
) -> None:
    manifest: dict[str, Any] = {"slug": "s", "files": {}, "submission": "s.py", "tests": []}
    manifest |= {"benchmarks": [], "ranking_by": "geom", "memory_mib": asked}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    directory = RunDirectory(
        tmp_path, load_problem(tmp_path), tmp_path, tmp_path, -1, AuthorActivity()
    )
    setup = WorkerSetup(replace(MACHINE, walls=("namespaces",)), [])
    found = WorkerTeams(setup, directory, "test", 1).worker(1).limits.memory_bytes
    third = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 3
    assert found == (min(expected, max(third, 1024**3)) if expected else max(third, 1024**3))
