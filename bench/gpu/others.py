"""E15 and E16: the same kernels by other people's clocks, and what a job costs besides."""

import importlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.gpu.local import Enqueue, Local, median, share
from bench.gpu.pair import Pair
from bench.gpu.table import Bench, Found, alone
from harness.devices.cuda.device import CudaDevice

MIB = 1024**2
BATCH = 40
SPINS_NS = {"3 us": 3000, "10 us": 10_000, "50 us": 50_000, "1 ms": 1_000_000}
TOLERANCE = 0.01
TOLERANCE_US = 0.3
Timer = Callable[[Callable[[], None]], float]


def comparison(bench: Bench) -> Found:
    """E15: gated, local and in batches, beside triton, torch, cupy and kineto where they are."""
    found: dict[str, dict[str, float | str]] = {
        "local": alone(partial(_local, bench)),
        "gated - null": alone(partial(_gated, bench)),
    }
    for name in TIMERS:
        try:
            found[name] = alone(partial(_other, bench, name), 60.0)
        except RuntimeError as error:
            found[name] = {"absent": str(error)[:80]}
    inside, gated = found["local"], found["gated - null"]
    pairs = {name: (float(gated[name]), float(inside[name])) for name in SPINS_NS}
    null_us = float(inside["null"])
    passed = all(
        abs(one - (other - null_us)) <= max(TOLERANCE * other, TOLERANCE_US)
        for one, other in pairs.values()
    )
    said = "; ".join(f"{name}: {_short(by)}" for name, by in found.items())
    return Found(f"us: {said}", passed, {"us": found})


def costs(bench: Bench) -> Found:
    """E16: what is paid before the first call, and for each call around its work.

    Referee and worker open their contexts one after the other, then in other processes both at
    once, as in a run.
    """
    in_turn = alone(partial(_costs, bench, opens_at_once=False))
    at_once = alone(partial(_costs, bench, opens_at_once=True))
    said = ", ".join(f"{name} {value:.3f}" for name, value in at_once.items())
    passed = at_once["opened_s"] < in_turn["opened_s"]
    data = {"in_turn": in_turn, "at_once": at_once}
    return Found(f"in turn opened_s {in_turn['opened_s']:.3f}; at once {said}", passed, data)


def _costs(bench: Bench, *, opens_at_once: bool) -> dict[str, float]:
    """Return seconds, except where a name says otherwise; `opened_s` until both contexts are."""
    began = time.perf_counter()
    with Pair("honest", bench.mps, opens_at_once=opens_at_once) as pair:
        forked_s = time.perf_counter() - began
        device = bench.device()
        referee_s = time.perf_counter() - began - forked_s
        pair.open(device, 4096)
        opened_s = time.perf_counter() - began
        first = time.perf_counter()
        pair.call("strict")
        first_s = time.perf_counter() - first
        count = 200
        first = time.perf_counter()
        pair.times_us("strict", count, ns=0)
        call_ms = 1000 * (time.perf_counter() - first) / count
        flush_us = Local(device).times(lambda _: device.referee.flush(), 20).median
    return {
        "fork_s": forked_s,
        "referee_s": referee_s,
        "guest_s": opened_s - referee_s - forked_s,
        "opened_s": opened_s,
        "first_call_s": first_s,
        "call_ms": call_ms,
        "flush_us": flush_us,
        **{f"guest_{name}": value for name, value in pair.said.items()},
    }


def _local(bench: Bench) -> dict[str, float]:
    device = bench.device(has_guest=False)
    local = Local(device)
    count = 100
    found = {name: local.cold(one, count).median for name, one in _work(device, local).items()}
    for name in ("3 us", "10 us"):
        one = _work(device, local)[name]
        many = local.times(lambda stream, one=one: _repeat(one, stream), 20, spin_us=300)  # type: ignore[misc]  # the default binds it
        found[f"{name} in batches"] = many.median / BATCH
    return found


def _gated(bench: Bench) -> dict[str, float]:
    with Pair("honest", bench.mps) as pair, Pair("null", bench.mps) as null:
        device = bench.device()
        for one in (pair, null):
            one.open(device, 4096)
        count = 100
        idle = null.times_us("strict", count)
        found = {"null": median(idle), "null p90 - p10": share(idle, 0.9) - share(idle, 0.1)}
        for name, ns in SPINS_NS.items():
            found[name] = median(pair.times_us("strict", count, ns=ns)) - median(idle)
    return found


def _other(bench: Bench, name: str) -> dict[str, float]:
    timer = TIMERS[name]
    device = bench.device(has_guest=False)
    work = _work(device, Local(device))
    torch: Any = importlib.import_module("torch")

    def called(enqueue: Enqueue) -> Callable[[], None]:
        return lambda: enqueue(torch.cuda.current_stream().cuda_stream)

    return {of: timer(called(one)) for of, one in work.items()}


def _work(device: CudaDevice, local: Local) -> dict[str, Enqueue]:
    """What is timed: kernels of known length, a copy, a product of matrices."""
    torch: Any = importlib.import_module("torch")
    target, source = torch.zeros(2, 64 * MIB, dtype=torch.uint8, device=device.place)
    square = torch.randn(4096, 4096, dtype=torch.bfloat16, device=device.place)
    out = torch.empty_like(square)

    def product(stream: int) -> None:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
            torch.mm(square, square, out=out)

    return {
        "null": local.kernel("k_null", (1, 1)),
        **{name: local.spin(ns) for name, ns in SPINS_NS.items()},
        "copy 64 MiB": local.copy(target, source),
        "matmul 4096": product,
    }


def _repeat(enqueue: Enqueue, stream: int) -> None:
    for _ in range(BATCH):
        enqueue(stream)


def _do_bench(work: Callable[[], None], result: str) -> float:
    testing: Any = importlib.import_module("triton.testing")
    return 1000 * float(testing.do_bench(work, warmup=10, rep=50, return_mode=result))


def _do_bench_graph(work: Callable[[], None]) -> float:
    testing: Any = importlib.import_module("triton.testing")
    torch: Any = importlib.import_module("torch")
    with torch.cuda.stream(torch.cuda.Stream()):
        return 1000 * float(testing.do_bench_cudagraph(work, rep=20))


def _inductor(work: Callable[[], None]) -> float:
    module: Any = importlib.import_module("torch._inductor.runtime.benchmarking")
    return 1000 * float(module.benchmarker.benchmark_gpu(work))


def _cupyx(work: Callable[[], None]) -> float:
    profiler: Any = importlib.import_module("cupyx.profiler")
    return 1e6 * float(profiler.benchmark(work, n_repeat=50, n_warmup=5).gpu_times.mean())


def _cupy_events(work: Callable[[], None]) -> float:
    cupy: Any = importlib.import_module("cupy")
    torch: Any = importlib.import_module("torch")
    times = []
    for _ in range(50):
        before, after = cupy.cuda.Event(), cupy.cuda.Event()
        torch.cuda._sleep(100_000)  # noqa: SLF001  (hides the launch, as the harness does)
        before.record()
        work()
        after.record()
        after.synchronize()
        times.append(1000 * float(cupy.cuda.get_elapsed_time(before, after)))
    return median(times)


def _kineto(work: Callable[[], None]) -> float:
    profiler: Any = importlib.import_module("torch.profiler")
    torch: Any = importlib.import_module("torch")
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as seen:
        for _ in range(20):
            work()
        torch.cuda.synchronize()
    times = [event.device_time_total for event in seen.events() if event.device_time_total]
    return median([float(one) for one in times])


TIMERS: dict[str, Timer] = {
    "do_bench mean": lambda work: _do_bench(work, "mean"),
    "do_bench median": lambda work: _do_bench(work, "median"),
    "do_bench_cudagraph": _do_bench_graph,
    "inductor": _inductor,
    "cupyx": _cupyx,
    "cupy events": _cupy_events,
    "kineto": _kineto,
}


def _short(by: dict[str, float | str]) -> str:
    if "absent" in by:
        return str(by["absent"])
    return " ".join(f"{name} {float(us):.1f}" for name, us in by.items())
