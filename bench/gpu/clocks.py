"""E1 to E7: the device's timer, its events, its bandwidth, and what a flush is worth."""

import ctypes
import importlib
import itertools
from collections.abc import Callable
from typing import Any

from bench.gpu.local import Enqueue, Local, Times, median, slope
from bench.gpu.pair import Pair
from bench.gpu.table import Bench, Found

MIB = 1024**2
CYCLES = 198_000
SPINS_US = (5, 10, 20, 50, 100, 200, 500, 1000)
COPIES_MIB = (64, 256, 1024, 4096)
# What the maker says of the memory.
MEMORY_TB_S = {"H200": 4.8, "H100 80GB HBM3": 3.35}
FLUSH_COPIES_MIB = (1, 4, 16, 32, 64, 128)


def timer_step(bench: Bench) -> Found:
    """E1: the smallest step of the device's timer."""
    device = bench.device(has_guest=False)
    step = device.timer_step_ns
    return Found(f"{step} ns, so {device.facts.clock} rank", step <= 100, {"step_ns": step})


def empty_pair(bench: Bench) -> Found:
    """E2: two events with nothing between, their quantum, and an empty kernel."""
    device = bench.device(has_guest=False)
    local = Local(device)
    empty = local.kernel("k_null", (1, 1))
    # The first launches load the kernels.
    local.times(empty, 3, spin_us=20)
    pair = local.times(lambda _: None, bench.count(1000), spin_us=20)
    null = local.times(empty, bench.count(1000), spin_us=20)
    values = sorted(set(pair.us + null.us))
    steps = [b - a for a, b in itertools.pairwise(values) if b - a > 1e-4]
    quantum = min(steps, default=0.0)
    difference = null.median - pair.median
    said = f"pair {pair.median:.3f} us, sd {pair.deviation:.3f}, quantum {quantum:.4f}"
    passed = 0.5 <= pair.median <= 3 and pair.deviation < 0.1 and 1 <= difference <= 3
    data = {"pair_us": pair.median, "null_us": null.median, "quantum_us": quantum, "dry": pair.dry}
    return Found(f"{said}, null - pair {difference:.3f} us", passed, data)


def known_spins(bench: Bench) -> Found:
    """E3: spins of known length, locally and through the gate."""
    with Pair("honest", bench.mps) as pair:
        device = bench.device()
        local = Local(device)
        pair.open(device, 4096)
        inside = [local.cold(local.spin(1000 * us), 200).median for us in SPINS_US]
        gated = [median(pair.times_us("strict", 200, ns=1000 * us)) for us in SPINS_US]
    lines = [slope(SPINS_US, one) for one in (inside, gated)]
    said = "; ".join(f"slope {a:.5f} + {b:.2f} us, left {c:.3f}" for a, b, c in lines)
    passed = all(abs(a - 1) <= 0.0005 and c < 0.15 for a, _, c in lines)
    return Found(
        f"local {said.replace('; ', '; gated ')}", passed, {"local": inside, "gated": gated}
    )


def known_cycles(bench: Bench) -> Found:
    """E4: a spin of known cycles, by events and by its own two clocks."""
    torch: Any = importlib.import_module("torch")
    device = bench.device(has_guest=False)
    local = Local(device)
    seen = torch.zeros(3, dtype=torch.int64, device=device.place)
    local.times(local.fma(2_000_000), 20, spin_us=0)
    us, mhz = {}, 0.0
    for cycles in (CYCLES, 2 * CYCLES):
        arguments = ctypes.c_longlong(cycles), ctypes.c_uint64(seen.data_ptr())
        times = local.times(local.kernel("k_spin_cycles", (1, 1), *arguments), bench.count(200))
        began, ended, spent = seen.tolist()
        us[cycles], mhz = times.median, 1000 * spent / (ended - began)
    # What a kernel costs besides is in both.
    difference_us, expected_us = us[2 * CYCLES] - us[CYCLES], CYCLES / mhz
    off = difference_us / expected_us - 1
    said = f"{us[CYCLES]:.3f} us, as much again takes {difference_us:.3f} us at {mhz:.1f} MHz"
    data = {"mhz": mhz, "us": list(us.values())}
    return Found(f"{said}, {100 * off:+.3f} % of cycles / clock", abs(off) < 0.002, data)


def bandwidth(bench: Bench) -> Found:
    """E5: copies from 64 MiB up, bytes read and written counted."""
    torch: Any = importlib.import_module("torch")
    device = bench.device(has_guest=False)
    local = Local(device)
    rates = {}
    for size in COPIES_MIB:
        target, source = torch.zeros(2, size * MIB, dtype=torch.uint8, device=device.place)
        times = local.cold(local.copy(target, source), 20)
        rates[size] = 2 * size * MIB / times.median / 1e6
        del target, source
    said = ", ".join(f"{size} MiB {rate:.2f}" for size, rate in rates.items())
    most = next((rate for part, rate in MEMORY_TB_S.items() if part in device.describe()["gpu"]), 0)
    passed = 0.8 * most < max(rates.values()) < most if most else None
    return Found(f"{said} TB/s", passed, {"tb_s": rates})


def data_and_power(bench: Bench) -> Found:
    """E6: one product of matrices, zeros against random numbers, in turn."""
    torch: Any = importlib.import_module("torch")
    device = bench.device(has_guest=False)
    local = Local(device)
    side = 8192
    out = torch.empty(side, side, dtype=torch.bfloat16, device=device.place)
    zeros = torch.zeros_like(out)
    noise = torch.randn_like(out)

    def product(of: Any) -> Enqueue:
        def enqueue(_: int) -> None:
            with device.referee.lane.entered():
                torch.mm(of, of, out=out)

        return enqueue

    local.times(product(noise), 50, spin_us=0)
    found: dict[str, list[float]] = {"zeros": [], "noise": []}
    for _ in range(10):
        found["zeros"] += local.times(product(zeros), 10).us
        found["noise"] += local.times(product(noise), 10).us
    zero_ms, noise_ms = (median(one) / 1000 for one in found.values())
    said = f"zeros {zero_ms:.3f} ms, random {noise_ms:.3f} ms, {noise_ms / zero_ms:.3f}x"
    return Found(said, noise_ms > zero_ms, {"zeros_ms": zero_ms, "noise_ms": noise_ms})


def flushes(bench: Bench) -> Found:
    """E7: the same copies after different ways of emptying the caches."""
    torch: Any = importlib.import_module("torch")
    device = bench.device(has_guest=False)
    local = Local(device)
    spare = torch.zeros(256 * MIB, dtype=torch.uint8, device=device.place)
    cache = device.facts.flush_bytes // 2
    ways: dict[str, Enqueue | None] = {
        "none": None,
        "fill 1x": _fill(device.driver, spare, cache),
        "fill 2x": _fill(device.driver, spare, 2 * cache),
        "fill 256 MiB": _fill(device.driver, spare, 256 * MIB),
        "two sweeps": lambda _: device.referee.flush(),
    }
    found: dict[str, dict[int, float]] = {name: {} for name in ways}
    for size in FLUSH_COPIES_MIB:
        target, source = torch.zeros(2, size * MIB, dtype=torch.uint8, device=device.place)
        copy = local.copy(target, source)
        for name, way in ways.items():
            times: Times = local.times(copy, 60, flush=way)
            found[name][size] = times.median
    said = "; ".join(f"{name} {[round(us, 1) for us in by.values()]}" for name, by in found.items())
    hot, full, swept = (found[name] for name in ("none", "fill 2x", "two sweeps"))
    passed = hot[1] <= swept[1] and all(swept[size] <= full[size] * 1.02 for size in swept)
    return Found(f"us of {list(FLUSH_COPIES_MIB)} MiB: {said}", passed, {"us": found})


def _fill(driver: Callable[..., None], spare: Any, size: int) -> Enqueue:
    def enqueue(stream: int) -> None:
        driver("cuMemsetD32Async", spare.data_ptr(), 7, min(size, len(spare)) // 4, stream)

    return enqueue
