"""E8 to E10, E17, E18: short kernels, what hides their launch, and work left elsewhere."""

import importlib
import os
import statistics
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from bench.gpu.local import Enqueue, Local, median
from bench.gpu.pair import Pair
from bench.gpu.table import Bench, Found, alone

SHORT_NS = 3000
FLOATS = 4096
IDLE_CLIENTS = (0, 2, 6)
HANDSHAKE_SPREAD_US_MAX = 1.0
BATCH_NS, BATCH_KERNELS, BATCHES = 5000, 80, 40
BATCH_CV_MAX = 0.01
# While the device spins, the whole batch is enqueued.
BATCH_SPIN_US = 2000
NVIDIA = "0x10de"


def short_kernels(bench: Bench) -> Found:
    """E8: a 3 us kernel from Python and from Triton, with and without a spin, and gated."""
    with Pair("honest", bench.mps) as pair, Pair("slow", bench.mps) as slow:
        device = bench.device()
        local = Local(device)
        work = local.spin(SHORT_NS)
        count = 200
        bare = local.times(work, count, spin_us=0)
        hidden = local.times(work, count)
        lazy = local.times(_after(20e-6, work), count, spin_us=100)
        found = {"bare": bare.median, "hidden": hidden.median, "lazy": lazy.median}
        if triton := _triton(device, local.stream):
            local.times(triton, 3)
            found["triton bare"] = local.times(triton, count, spin_us=0).median
            found["triton hidden"] = local.times(triton, count, spin_us=200).median
        for name, one in (("gated", pair), ("gated lazy", slow)):
            one.open(device, FLOATS)
            one.times_us("strict", 3, ns=SHORT_NS, sleep_us=20)
            found[name] = median(one.times_us("strict", count, ns=SHORT_NS, sleep_us=20))
    said = ", ".join(f"{name} {us:.2f}" for name, us in found.items())
    is_hidden = hidden.dry < 0.01 * count + 1 and abs(found["lazy"] - found["hidden"]) < 0.5
    is_gated = abs(found["gated lazy"] - found["gated"]) < 0.5
    dry = {"bare": bare.dry, "hidden": hidden.dry, "lazy": lazy.dry}
    return Found(f"us: {said}; dry {dry}", is_hidden and is_gated, {"us": found, "dry": dry})


def host_sync(bench: Bench) -> Found:
    """E9: a kernel that reads a value back behind a shut gate."""
    with Pair("sync", bench.mps) as pair:
        device = bench.device()
        pair.open(device, FLOATS)
        outcomes = [pair.call("strict", ns=SHORT_NS) for _ in range(20)]
    late = sum("late" in one.shot.flags for one in outcomes if one.shot)
    right = sum(one.is_right for one in outcomes)
    times = [one.shot.time_us for one in outcomes if one.shot]
    said = f"{late} of {len(outcomes)} late, {right} right, median {median(times):.1f} us"
    return Found(said, late == len(outcomes) == right, {"us": times})


def second_stream(bench: Bench) -> Found:
    """E10: a millisecond of work that the timed stream does not wait for."""
    with Pair("stream2", bench.mps) as pair:
        device = bench.device()
        local = Local(device)
        side = device.driver.pointer("cuStreamCreate", 1)
        spin = local.spin(1_000_000)
        times, walls = [], []
        for _ in range(20):
            began = time.perf_counter()
            times += local.times(lambda _: spin(side.value or 0), 1).us
            importlib.import_module("torch").cuda.synchronize()
            walls.append(1e6 * (time.perf_counter() - began))
        seen = sum(wall > 1.01 * us + 50 + 900 for us, wall in zip(times, walls, strict=True))
        pair.open(device, FLOATS)
        outcomes = [pair.call("strict", ns=1_000_000) for _ in range(20)]
    wrong = sum(not one.is_right for one in outcomes)
    said = f"local: {median(times):.1f} us, span seen {seen} of 20; gated: {wrong} of 20 rejected"
    fouls = sorted({one.foul for one in outcomes if one.foul})
    return Found(said, seen == 20 == wrong, {"us": times, "fouls": fouls})


def idle_clients(bench: Bench) -> Found:
    """E17: a gated 3 us kernel beside idle MPS clients, from the first and the last core.

    Each combination has a referee and a guest of its own, so the guest has another client slot.
    """
    cores = sorted(os.sched_getaffinity(0))
    times_us = {
        f"{count} idle, core {core}": alone(partial(_gated_us, bench, count, core))
        for count in IDLE_CLIENTS
        for core in dict.fromkeys((cores[0], cores[-1]))
    }
    spread_us = max(times_us.values()) - min(times_us.values())
    said = ", ".join(f"{name}: {us:.2f}" for name, us in times_us.items())
    nodes = _numa_nodes()
    data = {"us": times_us, "gpu_numa_nodes": nodes}
    passed = spread_us < HANDSHAKE_SPREAD_US_MAX
    return Found(f"us: {said}; NUMA node of the GPU {nodes}", passed, data)


def _gated_us(bench: Bench, count: int, core: int) -> float:
    """Return the median time of the kernel; `core` is the referee's, which polls."""
    with ExitStack() as stack:
        idle = [stack.enter_context(Pair("null", bench.mps)) for _ in range(count)]
        pair = stack.enter_context(Pair("honest", bench.mps))
        os.sched_setaffinity(0, [core])
        device = bench.device()
        for one in (*idle, pair):
            one.open(device, FLOATS)
        pair.times_us("strict", 3, ns=SHORT_NS)
        return median(pair.times_us("strict", 200, ns=SHORT_NS))


def _numa_nodes() -> list[int]:
    """Return the NUMA node of each NVIDIA device on the bus; -1 if the machine has none."""
    folders = sorted(Path("/sys/bus/pci/devices").glob("*"))
    ours = [one for one in folders if (one / "vendor").read_text().strip() == NVIDIA]
    return [int((one / "numa_node").read_text()) for one in ours]


def batches(bench: Bench) -> Found:
    """E18: 5 us kernels, each alone and in batches of 80, by the device's timer."""
    local = Local(bench.device(has_guest=False))
    work = local.spin(BATCH_NS)

    def enqueue_batch(stream: int) -> None:
        for _ in range(BATCH_KERNELS):
            work(stream)

    # An imitation takes long for each step of its clock.
    count, spin_us = (3, 50) if bench.is_imitation else (BATCHES, BATCH_SPIN_US)
    alone_us = local.times(work, count).us
    whole_us = local.times(enqueue_batch, count, spin_us=spin_us).us
    batch_us = [us / BATCH_KERNELS for us in whole_us]
    cvs = [statistics.stdev(us) / statistics.mean(us) for us in (alone_us, batch_us)]
    said = f"alone {median(alone_us):.3f} us CV {100 * cvs[0]:.2f} %"
    said += f", in batches {median(batch_us):.3f} us CV {100 * cvs[1]:.2f} %"
    data = {"alone_us": alone_us, "batch_us": batch_us}
    return Found(said, cvs[1] < BATCH_CV_MAX, data)


def _after(pause_s: float, work: Enqueue) -> Enqueue:
    """The same work from a slow launcher."""

    def enqueue(stream: int) -> None:
        until = time.perf_counter() + pause_s
        while time.perf_counter() < until:
            pass
        work(stream)

    return enqueue


def _triton(device: Any, stream: int) -> Enqueue | None:
    """A small kernel of Triton's, if it is installed, on the stream that is timed."""
    try:
        kernels: Any = importlib.import_module("bench.gpu.triton_kernels")
    except ImportError:
        return None
    torch: Any = importlib.import_module("torch")
    given, out = torch.ones(2, FLOATS, device=device.place)
    where = torch.cuda.ExternalStream(stream)

    def enqueue(_: int) -> None:
        with torch.cuda.stream(where):
            kernels.answer[(FLOATS // 1024,)](given, out, FLOATS, SIZE=1024)

    return enqueue
