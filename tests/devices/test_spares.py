"""Spares on a GPU, on an imitated driver: their contexts open before a request, and never after."""

import importlib
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from harness.devices.access import DeviceAccess
from harness.devices.cuda import host as cuda_host
from harness.devices.cuda.device import CudaDevice
from harness.devices.device import CpuDevice, Device, DeviceFault
from harness.problem import AuthorActivity, load_problem
from harness.sandbox.box import BoxSpec, Limits
from harness.sandbox.spare import can_wait
from harness.supervisor import run
from harness.supervisor.folders import RunFolder, prepare_run_directory
from harness.supervisor.process import ProcessSpec, take_request
from harness.supervisor.rehearsal import Rehearsal
from harness.supervisor.run import Preparation, RunDevice, StagedRun, find_device_spec
from harness.worker.server import WorkerServer
from harness.zygote import prepare_spare_worker
from tests.harness.test_outfit import MACHINE
from tests.support.harness import HONEST, Host, Warm

from .fake_driver import Machine

GPU = "NVIDIA H100 80GB HBM3"
SUBMISSION = """
from tests.devices import test_spares
test_spares.steps.append("import")
def custom_kernel(data):
    return data
"""
steps: list[str] = []


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A problem whose runs are made and not executed, so no harness is needed."""
    folder = tmp_path / "host"
    folder.mkdir()
    return Host(folder, cast("Warm", None))


@pytest.fixture
def driver() -> Machine:
    """The driver of one GPU; what it does is in `log`."""
    return Machine(GPU)


@pytest.fixture
def gpu(driver: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The driver, in whose context each process of a run opens its device."""

    def open_device(*_: object) -> Device:
        driver.enter(0)
        return CpuDevice(is_frozen=True)

    monkeypatch.setattr(run, "open_device", open_device)
    monkeypatch.setattr(run, "find_device_access", lambda *_, **__: DeviceAccess())
    monkeypatch.setattr(run, "reserve_core", lambda *_: [])
    return driver


def make_run(host: Host, folder: Path, preparation: Preparation) -> StagedRun:
    """Make a test run on a GPU, up to its start."""
    request = host.request(HONEST, device="cuda")
    problem = load_problem(Path(request.problem))
    directory = prepare_run_directory(request, problem, RunFolder.make(folder))
    return StagedRun(request, directory, MACHINE, lambda _: None, preparation)


def test_no_context_opens_between_the_request_and_the_start_of_a_run(
    host: Host, tmp_path: Path, gpu: Machine
) -> None:
    request = host.request(HONEST, device="cuda")
    spec = find_device_spec(request, load_problem(Path(request.problem)), MACHINE)
    spare = RunDevice(spec, MACHINE)
    spare.open(MACHINE)
    assert gpu.contexts == ["context"]
    make_run(host, tmp_path, Preparation(run_device=spare))
    assert gpu.contexts == ["context"]
    make_run(host, tmp_path, Preparation())
    assert gpu.contexts == ["context", "context"], "without a spare process, the run opens it"


def test_a_rehearsal_opens_no_context_and_leaves_no_folder(
    host: Host, tmp_path: Path, gpu: Machine
) -> None:
    request = host.request(HONEST, device="cuda")
    run_device = RunDevice(
        find_device_spec(request, load_problem(Path(request.problem)), MACHINE), MACHINE
    )
    run_device.open(MACHINE)
    rehearsal = Rehearsal(tmp_path / "rehearsal")
    before = sorted((tmp_path / "rehearsal").rglob("*"))
    for _ in range(2):
        rehearsal.prepare_run(MACHINE)
        rehearsal.begin_run(MACHINE, run_device, AuthorActivity())
    assert sorted((tmp_path / "rehearsal").rglob("*")) == before
    assert gpu.contexts == ["context"]


def test_a_worker_of_a_spare_box_opens_its_context_before_the_import_and_no_other(
    driver: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_context() -> None:
        driver.enter(0)
        steps.append("context")

    steps.clear()
    torch: Any = importlib.import_module("torch")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: bool(driver.contexts))
    monkeypatch.setattr(torch.cuda, "init", open_context)
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: None)
    spec = BoxSpec(("namespaces",), Limits(), "", "", devices=("/dev/nvidia0",))
    monkeypatch.setattr("harness.zygote.replace_environment", lambda _: None)
    prepare_spare_worker(replace(spec, devices=()))
    assert steps == []
    prepare_spare_worker(spec)
    assert steps == ["context"]
    path = tmp_path / "submission.py"
    path.write_text(SUBMISSION)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        WorkerServer(theirs, path)._set_up({"opens_context": True, "entry": "custom_kernel"}, [])
    assert steps == ["context", "import"]
    assert len(driver.contexts) == 1


def test_a_box_with_a_gpu_of_each_rank_cannot_wait() -> None:
    spec = BoxSpec(("namespaces",), Limits(), "", "", devices=("/dev/nvidia0",))
    assert can_wait(spec)
    assert not can_wait(replace(spec, ranks=2))
    assert not can_wait(replace(spec, walls=()))


def test_a_spare_process_waits_only_while_most_of_the_memory_is_free(
    host: Host, gpu: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = CudaDevice(is_frozen=True, runs_beside=True)
    device.driver = gpu
    monkeypatch.setattr(run, "open_device", lambda *_: device)
    request = host.request(HONEST, device="cuda")
    spec = find_device_spec(request, load_problem(Path(request.problem)), MACHINE)
    spare = RunDevice(spec, MACHINE)
    spare.open(MACHINE)
    spare.require_room()
    gpu.free_bytes = gpu.total_bytes // 2
    with pytest.raises(DeviceFault, match="only 50% of the device's memory are free"):
        spare.require_room()


def test_a_spare_process_whose_context_broke_takes_no_request() -> None:
    class Broken(CpuDevice):
        def is_usable(self) -> bool:
            return False

    read, write = os.pipe()
    assert not take_request(Broken(is_frozen=True), write)
    os.set_blocking(read, False)
    with pytest.raises(BlockingIOError):
        os.read(read, 1)
    assert take_request(CpuDevice(is_frozen=True), write)
    assert os.read(read, 1)
    os.close(read)
    os.close(write)


def test_a_spare_process_of_another_driver_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version, pipes = tmp_path / "version", tmp_path / "pipes"
    monkeypatch.setattr(cuda_host, "_DRIVER_VERSION", str(version))
    monkeypatch.setattr(cuda_host, "MPS_PIPES", str(pipes))

    def find(device: str = "cuda") -> ProcessSpec:
        return ProcessSpec.find(device, MACHINE.defences, None)

    version.write_text("570.86.10")
    first, on_cpu = find(), find("cpu")
    assert find() == first
    version.write_text("575.51.03")
    second = find()
    assert second != first
    pipes.mkdir()
    (pipes / "control").touch()
    assert find() != second
    assert find("cpu") == on_cpu
