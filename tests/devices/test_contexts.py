"""When a GPU's contexts open, and what its first call may load, on an imitated driver."""

import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from harness.devices.cuda.device import CudaDevice
from harness.messages import CaseFailed
from harness.time.policy import policy_for
from harness.time.procedure import ClockWarmUp, measure_process
from harness.time.process import MeasurementPlan, Sample
from harness.worker import server
from harness.worker.server import WorkerServer

from .fake_driver import Machine
from .fake_ranks import WORK_NS, Team, team

SUBMISSION = """
from tests.devices import test_contexts
test_contexts.steps.append("import")
def custom_kernel(data):
    return data
"""
steps: list[str] = []


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerServer]:
    """A worker of a submission, whose context is that of the imitation."""
    steps.clear()
    machine = Machine("NVIDIA H100 80GB HBM3")

    def open_context() -> None:
        machine.enter(0)
        steps.extend(machine.contexts)

    monkeypatch.setattr(server, "open_context", open_context)
    path = tmp_path / "submission.py"
    path.write_text(SUBMISSION)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield WorkerServer(theirs, path)


def set_up(worker: WorkerServer, **role: object) -> None:
    worker._set_up(json.loads(json.dumps(role)), [])


def test_a_worker_opens_its_context_before_it_imports_the_submission(worker: WorkerServer) -> None:
    set_up(worker, opens_context=True)
    assert steps == ["context", "import"]


def test_a_worker_that_opened_its_context_early_opens_no_other(worker: WorkerServer) -> None:
    set_up(worker, opens_context=True, only_opens=True, home="/scratch")
    assert steps == ["context"]
    set_up(worker, entry="custom_kernel")
    assert steps == ["context", "import"]


def test_a_worker_without_a_gpu_opens_no_context(worker: WorkerServer) -> None:
    set_up(worker, entry="custom_kernel")
    assert steps == ["import"]


def test_timed_calls_open_no_context_and_load_no_module() -> None:
    ranks = team(WORK_NS)
    ranks.ranks[0].loads_ns = 20 * WORK_NS
    device = make_device(ranks)
    device.run_untimed(ranks)
    before = len(ranks.machine.log)
    times_us = [device.referee.shoot(ranks, "strict").time_us for _ in range(3)]
    timed = [what for what, _, _ in ranks.machine.log[before:]]
    assert timed.count("work") == 3
    assert {"context", "load"}.isdisjoint(timed)
    assert max(times_us) < 2 * WORK_NS / 1000


FMA = "k_fma"
FMA_NS = 50_000


@dataclass
class GatedCalls:
    """A source of samples whose two sides are one worker of an imitated GPU."""

    device: CudaDevice
    ranks: Team

    def measure(self, order: str, calls: Mapping[str, int]) -> dict[str, tuple[Sample, ...]]:
        return {side: tuple(self._call() for _ in range(calls[side])) for side in order}

    def time_fma(self) -> float:
        return self.device.time_fma()

    def is_crowded(self) -> bool:
        return False

    def _call(self) -> Sample:
        return Sample(self.device.referee.shoot(self.ranks, "strict").time_us)


def make_device(ranks: Team) -> CudaDevice:
    """The referee's device; a kernel of the platform takes as long as on a GPU."""
    device = CudaDevice(is_frozen=True, runs_beside=True)
    device.referee, device.tier = ranks.referees[0], "G1"
    machine, handle = ranks.machine, ranks.referees[0].lane.handle

    def launch_fma(*_: Any) -> None:
        machine.enqueue(handle, FMA, lambda: None, FMA_NS)

    vars(device)["_fma"] = launch_fma
    return device


def test_the_clock_is_warmed_up_once_in_a_run_and_no_context_opens_between_timed_calls() -> None:
    ranks = team(WORK_NS)
    source = GatedCalls(make_device(ranks), ranks)
    policy = policy_for("cuda", "ranked")
    clock, fma_counts = ClockWarmUp(policy), []
    for number in range(policy.processes):
        before = len(ranks.machine.log)
        clock.warm_up(source, lambda: ranks.machine.now_ns / 1e9)
        fma_counts.append([what for what, _, _ in ranks.machine.log[before:]].count(FMA))
        before = len(ranks.machine.log)
        plan = MeasurementPlan(policy)
        measure_process(source, plan, lambda: ranks.machine.now_ns / 1e9, Random(number).randrange)
        timed = [what for what, _, _ in ranks.machine.log[before:]]
        assert timed.count("work") > 2 * policy.looks[0]
        assert {"context", "load", FMA}.isdisjoint(timed)
    # One window of 20 ms shows that the clock is still warm; the ramp takes 0.2 s at least.
    first, *later = fma_counts
    assert first > 5 * max(later)


def test_an_untimed_call_shows_its_input_and_opens_its_gate_before_it_begins() -> None:
    ranks = team(WORK_NS)
    ranks.ranks[0].loads_ns = WORK_NS
    ranks.referees[0].call_ungated(ranks)
    order = [what for what, _, _ in ranks.machine.log]
    assert order.index("k_copy") < order.index("write", order.index("k_copy"))
    assert order.index("write", order.index("k_copy")) < order.index("load") < order.index("work")
    assert ranks.ranks[0].snapshot.eq(2).all()
    assert "k_stamp" not in order


def test_a_module_that_a_timed_call_loads_is_the_time_of_the_submission() -> None:
    ranks = team(WORK_NS)
    ranks.ranks[0].loads_ns = 20 * WORK_NS
    first, second = (ranks.referees[0].shoot(ranks, "strict").time_us for _ in range(2))
    assert first > 20 * WORK_NS / 1000 > second


def test_a_submission_that_dies_in_an_untimed_call_leaves_no_queue_waiting() -> None:
    ranks = team(WORK_NS)
    ranks.is_deaf = True
    with pytest.raises(CaseFailed, match="no answer"):
        ranks.referees[0].call_ungated(ranks)
    assert not any(stream.queue for stream in ranks.machine.streams.values())
