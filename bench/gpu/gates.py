"""V1 to V9: the gate, what gets past it, and what it costs."""

import contextlib
import importlib
import os
import time
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from bench.gpu import guest
from bench.gpu.local import median, share
from bench.gpu.pair import GuestFailed, Outcome, Pair
from bench.gpu.table import Bench, Found, Skipped, alone
from harness.devices.cuda.device import CudaDevice
from harness.devices.cuda.gate import Referee
from harness.devices.cuda.memory import RankCall
from harness.devices.device import DeviceFault

T = TypeVar("T")

FLOATS = 1024 * 1024
SMALL = 4096
WORK_NS = 100_000
CALLS = 40
CHEATS = ("peek", "peekq")
# With more, only calls that take twenty times as long may rank (isolation.md, V6).
HANDSHAKE_US_MAX = 20.0


class Plain(Referee):
    """A referee that reveals as one would without thinking: it shows what `peek` can win."""

    def start(self) -> None:
        """Does nothing: the clocks start only after the inputs are visible."""

    def reveal(self, call: RankCall) -> None:
        """Shows the inputs, empties the caches, and only then starts the clocks."""
        self.copy(call.inputs)
        self.flush()
        super().start()
        self._driver("cuStreamWriteValue32_v2", self._handle, call.reveal_at, call.reveal, 0)


def fork_then_open(bench: Bench) -> Found:
    """V1: this process is itself a fork of one that imported torch; a context opens in it."""
    began = time.perf_counter()
    device = bench.device(has_guest=False)
    torch: Any = importlib.import_module("torch")
    value = float(torch.ones(1000, device=device.place).sum())
    took_s = time.perf_counter() - began
    return Found(f"sum {value:.0f}, open in {took_s:.2f} s, tier {device.tier}", value == 1000)


def legacy_stream(bench: Bench) -> Found:
    """V2: memory operations on the legacy stream; raw launches wait behind the shut gate."""
    said, waited = {}, {}
    with Pair("honest", bench.mps) as raw, Pair("torch", bench.mps) as torch:
        device = bench.device()
        for name, pair in (("raw", raw), ("torch", torch)):
            pair.open(device, FLOATS)
            pair.call("strict")
            pair.ready()
            said[name] = pair.said["is_legacy"]
            waited[name] = pair.is_poisoned()
    text = f"legacy stream takes memory operations: {said}; nothing written while shut: {waited}"
    return Found(text, all(waited.values()), {"legacy": said, "waited": waited})


def across_users(bench: Bench) -> Found:
    """V3: descriptors of device memory across a uid and a pid namespace."""
    if os.getuid():
        raise Skipped("only root can start a guest of another uid")
    with Pair("honest", bench.mps, is_apart=True) as pair:
        device = bench.device()
        pair.open(device, FLOATS)
        outcomes = [pair.call("strict", ns=WORK_NS) for _ in range(5)]
    right = sum(one.is_right for one in outcomes)
    return Found(f"{right} of 5 answers right, as uid {guest.NOBODY}", right == 5)


def two_at_once(bench: Bench) -> Found:
    """V4: with the daemon, two contexts run at once, and a guest's fault can be survived."""
    tier, took_us, ended = alone(partial(_beside, bench))
    said = f"tier {tier}, blanket call {took_us:.1f} us; a faulting guest: {ended}"
    return Found(f"{said}; afterwards: {alone(partial(_well, bench))}", tier == "G1")


def peeking(bench: Bench) -> Found:
    """V5: whoever looks early, against each way to reveal.

    What an honest call spends on the gate may be hidden; nothing of the work may.
    """
    ways = ("plain", "strict", "blanket") if bench.mps else ("plain", "strict")
    honest, *cheats = ([(mode, way) for way in ways] for mode in ("honest", *CHEATS))
    found: dict[str, dict[str, Any]] = {}
    for group in _groups(bench, honest, [*chain(*cheats)]):
        found |= alone(partial(_shown, bench, group))
    us = {name: one["us"] for name, one in found.items() if "us" in one}
    early = [name for name, time_us in us.items() if 1000 * time_us < WORK_NS]
    said = ", ".join(f"{name} {time_us:.1f}" for name, time_us in us.items())
    fouls = {name: one["fouls"] for name, one in found.items() if "honest" not in name}
    is_compared = all(f"{mode} {way}" in us for mode, way in honest)
    held = is_compared and all("plain" in name for name in early)
    return Found(
        f"us of {WORK_NS / 1000:.0f} us of work: {said}; fouls {fouls}",
        held and (bool(early) or not bench.mps),
        found,
    )


def handshake(bench: Bench) -> Found:
    """V6: a call with nothing in it, and what that takes off a call with something."""
    ways = ("strict", "blanket") if bench.mps else ("strict",)
    found = {}
    with Pair("null", bench.mps) as null, Pair("honest", bench.mps) as work:
        device = bench.device()
        for pair in (null, work):
            pair.open(device, FLOATS)
        for way in ways:
            times = [one for one in _outcomes(null, way, 10 * CALLS) if one.shot]
            us = [one.shot.time_us for one in times if one.shot]
            known = median(work.times_us(way, CALLS, ns=WORK_NS)) - median(us)
            found[way] = [share(us, 0.1), median(us), share(us, 0.9), known]
    said = "; ".join(
        f"{way}: p10 {a:.2f} median {b:.2f} p90 {c:.2f}, {WORK_NS // 1000} us read as {d:.2f}"
        for way, (a, b, c, d) in found.items()
    )
    passed = min(b for _, b, _, _ in found.values()) <= HANDSHAKE_US_MAX
    return Found(said, passed, {"us": found})


def wrong_order(bench: Bench) -> Found:
    """V7: done said before the work, and work that done does not wait for.

    A right answer took the device its time, so it may be accepted, but not as a faster one.
    """
    found: dict[str, list[float]] = {}
    for group in _groups(bench, ["honest"], ["early", "stream2"]):
        found |= alone(partial(_right, bench, group))
    honest = found.pop("honest")
    said = ", ".join(
        f"{mode}: {len(us)} of {CALLS}" + (f" at {median(us) / median(honest):.2f}x" if us else "")
        for mode, us in found.items()
    )
    passed = all(not us or median(us) > 0.95 * median(honest) for us in found.values())
    return Found(f"accepted of {said} of the honest time", passed, {"honest": honest, **found})


def progress(bench: Bench) -> Found:
    """V8: waits on both sides, one device, no daemon: calls go on."""
    count = 200
    with Pair("honest", bench.mps) as pair:
        device = bench.device()
        pair.open(device, SMALL)
        began = time.perf_counter()
        times = pair.times_us("strict", count, ns=1000)
        took_s = time.perf_counter() - began
    said = f"{len(times)} of {count} calls, {1000 * took_s / count:.2f} ms each by the wall"
    slow = max(times, default=0.0)
    return Found(f"{said}, slowest {slow:.0f} us", len(times) == count and took_s < count * 0.05)


def two_clocks(bench: Bench) -> Found:
    """V9: stamps against events around the same calls."""
    with Pair("honest", bench.mps) as pair:
        device = bench.device()
        pair.open(device, SMALL)
        outcomes = _outcomes(pair, "strict", 200, ns=20_000)
    apart = [one.shot.events_us - one.shot.stamps_us for one in outcomes if one.shot]
    spread = share(apart, 0.95) - share(apart, 0.05)
    said = f"step {device.timer_step_ns} ns; events - stamps {median(apart):.3f} us"
    return Found(f"{said}, p5 to p95 {spread:.3f}", spread <= 0.2, {"us": apart[:200]})


def _beside(bench: Bench) -> tuple[str, float, str]:
    """A working guest, and then one that takes the daemon's server with it."""
    with Pair("honest", bench.mps) as pair, Pair("fault", bench.mps) as fault:
        device = bench.device()
        pair.open(device, SMALL)
        fault.open(device, SMALL)
        took_us = median(pair.times_us("blanket", CALLS, ns=WORK_NS))
        try:
            fault.call("strict")
        except (GuestFailed, DeviceFault, RuntimeError) as error:
            return device.tier, took_us, str(error).strip().rpartition("\n")[2][:100]
    return device.tier, took_us, "was answered"


def _well(bench: Bench) -> str:
    """Whether a fresh referee and a fresh guest work."""
    with Pair("honest", bench.mps) as pair:
        pair.open(bench.device(), SMALL)
        return "well" if pair.call("strict").is_right else "a wrong answer"


def _groups(bench: Bench, honest: Sequence[T], cheats: Sequence[T]) -> list[Sequence[T]]:
    """Return what is measured in one process each, with one referee.

    With MPS, a guest that is killed during its kernel may take the referee with it.
    """
    return [honest, *([one] for one in cheats)] if bench.mps else [[*honest, *cheats]]


def _shown(bench: Bench, group: Sequence[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """The times and fouls of modes and ways, whose guests are measured one after the other."""
    found = {}
    with contextlib.ExitStack() as stack:
        pairs = [stack.enter_context(Pair(mode, bench.mps)) for mode, _ in group]
        device = bench.device()
        referee = device.referee
        plain = Plain(device.driver, device.kernels, device.facts, referee.lane)
        for pair, (mode, way) in zip(pairs, group, strict=True):
            device.referee = plain if way == "plain" else referee
            with pair:
                found[f"{mode} {way}"] = _shown_in_turn(pair, device, way)
    return found


def _shown_in_turn(pair: Pair, device: CudaDevice, way: str) -> dict[str, Any]:
    pair.open(device, FLOATS)
    try:
        outcomes = _outcomes(pair, "blanket" if way == "blanket" else "strict", CALLS)
    except GuestFailed as failure:
        return {"fouls": [str(failure)[-80:]]}
    right = [one.shot.time_us for one in outcomes if one.shot and one.is_right]
    said: dict[str, Any] = {
        "fouls": sorted({one.foul for one in outcomes if one.foul}),
        "wrong": sum(not one.is_right for one in outcomes),
    }
    return said | ({"us": median(right)} if right else {})


def _right(bench: Bench, modes: Sequence[str]) -> dict[str, list[float]]:
    """The times of the calls of each mode that were answered right."""
    found = {}
    with contextlib.ExitStack() as stack:
        pairs = [stack.enter_context(Pair(mode, bench.mps)) for mode in modes]
        device = bench.device()
        for pair in pairs:
            with pair:
                pair.open(device, FLOATS)
                outcomes = _outcomes(pair, "blanket" if bench.mps else "strict", CALLS)
            right = [one for one in outcomes if one.is_right]
            found[pair.mode] = [one.shot.time_us for one in right if one.shot]
    return found


def _outcomes(pair: Pair, way: str, count: int, **wish: Any) -> list[Outcome]:
    """So many calls, each told apart; the first three are not counted."""
    wish = wish or {"ns": WORK_NS}
    found = pair.calls(way, count + 3, **wish)
    return found[3:] or found
