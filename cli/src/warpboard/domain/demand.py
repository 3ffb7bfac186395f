"""What this machine offers, and what a platform on it demands of ranked times."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from harness.vocabulary import CPU_DEVICE
from shared.api.agents import MissingWall
from shared.errors import Refused
from shared.presentation.units import NO_VALUE, one_line
from warpboard.domain.output import FAILED, OK

STRONG = "strong"
# Tiers that rank anywhere; a local platform may also rank this machine's tier.
TIERS = ("G1", "G2", "C1")


NO_DEVICE = "none"
# One device, or all GPUs of a driver, or the GPU of it with this number.
DEVICE = re.compile(r"(?P<name>cpu|cuda|hip|none)(:(?P<index>\d{1,2}))?\Z")


class Device(NamedTuple):
    """What an agent times: the processor, or the GPU with this number of a driver."""

    name: str = CPU_DEVICE
    gpu_index: int = 0

    def __str__(self) -> str:
        """Format it as in --device."""
        return self.name if self.name == CPU_DEVICE else f"{self.name}:{self.gpu_index}"


class AgentPlan(NamedTuple):
    """The agents of a platform: one for each device, and how many may be started on demand."""

    devices: Sequence[Device] = (Device(),)
    launched: int = 0


DEFAULT_PLAN = AgentPlan()


class FoundGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU of this machine; `problem` is why no agent can use it, "" if one can."""

    device: str
    index: int
    name: str
    tier: str = ""
    problem: str = ""

    @property
    def as_device(self) -> Device:
        """The device of an agent that times it."""
        return Device(self.device, self.index)


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What the harness found here."""

    level: str
    tier: str
    device: str
    kernel: str = ""
    walls: list[str] = []
    missing: list[MissingWall] = []
    launchers: list[str] = []
    launchers_missing: list[MissingWall] = []
    priorities: list[str] = []
    priorities_missing: list[MissingWall] = []
    toolchains: dict[str, str] = {}
    gpus: list[FoundGpu] = []


def choose_devices(offer: Offer, requested: Sequence[str]) -> list[Device]:
    """Return what agents here time: the requested devices, else each usable GPU, else the cpu.

    Raises Refused for a requested GPU that was not found or cannot be used.

    >>> offer = Offer(level="weak", tier="C2", device="cpu")
    >>> choose_devices(offer, []), choose_devices(offer, ["none"])
    ([Device(name='cpu', gpu_index=0)], [])
    """
    if not requested:
        return [gpu.as_device for gpu in offer.gpus if not gpu.problem] or [Device()]
    chosen: dict[Device, None] = {}
    for text in requested:
        match = DEVICE.match(text)
        if match is None or (match["index"] and match["name"] in (CPU_DEVICE, NO_DEVICE)):
            expected = "expected cpu, cuda, hip, none, or a GPU such as cuda:0"
            raise Refused("bad_device", f"--device {text}: {expected}", "--device")
        if match["name"] == CPU_DEVICE:
            chosen[Device()] = None
        elif match["name"] != NO_DEVICE:
            index = int(match["index"]) if match["index"] else None
            for device in _requested_gpus(offer, text, match["name"], index):
                chosen[device] = None
    return list(chosen)


def _requested_gpus(offer: Offer, text: str, name: str, index: int | None) -> list[Device]:
    gpus = [gpu for gpu in offer.gpus if gpu.device == name and index in (None, gpu.index)]
    usable = [gpu.as_device for gpu in gpus if not gpu.problem]
    if not usable:
        reason = f"{gpus[0].name}: {gpus[0].problem}" if gpus else "no such GPU was found here"
        raise Refused("bad_device", f"--device {text}: {reason}", "--device")
    return usable


def gpu_lines(offer: Offer, chosen: Sequence[Device]) -> Iterator[str]:
    """Describe each GPU that was found, and what an agent may claim with it.

    >>> gpu = FoundGpu(device="cuda", index=0, name="NVIDIA H100", tier="G1")
    >>> offer = Offer(level="strong", tier="C1", device="cpu", gpus=[gpu])
    >>> list(gpu_lines(offer, [Device("cuda")]))
    ['found NVIDIA H100 (cuda:0): isolation strong, timing tier G1']
    """
    for gpu in offer.gpus:
        line = f"found {one_line(gpu.name)} ({gpu.as_device}): "
        if gpu.problem:
            yield f"{line}it cannot be used: {one_line(gpu.problem)}"
            continue
        left_out = "" if gpu.as_device in chosen else "; no agent was started for it"
        yield f"{line}isolation {offer.level}, timing tier {gpu.tier}{left_out}"


def offer_exit_code(offer: Offer) -> int:
    """Return OK if ranked runs may be offered without the operator's opt-in."""
    return OK if offer.level == STRONG else FAILED


def offer_lines(offer: Offer) -> Iterator[str]:
    """Describe the offer, one line each, with reason and fix for what is missing."""
    kernel = f" (Linux {offer.kernel})" if offer.kernel else ""
    yield f"isolation {offer.level}{kernel}; device {offer.device}, timing tier {offer.tier}"
    for wall in offer.walls:
        yield f"  wall {wall}: ok"
    yield from (f"  {line}" for line in missing_lines(offer.missing))
    for name in offer.launchers:
        yield f"  launcher {name}: ok"
    yield from (f"  {line}" for line in missing_lines(offer.launchers_missing, "launcher"))
    for name in offer.priorities:
        yield f"  priority {name}: ok"
    yield from (f"  {line}" for line in missing_lines(offer.priorities_missing, "priority"))
    yield from (f"  {line}" for line in gpu_lines(offer, [gpu.as_device for gpu in offer.gpus]))
    for name, version in offer.toolchains.items():
        yield f"  toolchain {name}: {one_line(version)}"
    if offer.level != STRONG:
        yield "below strong: ranked runs are not offered unless the operator demands less"


def missing_lines(missing: list[MissingWall], kind: str = "wall") -> Iterator[str]:
    """Describe what is missing, why, and how to fix it.

    >>> list(missing_lines([MissingWall(wall="uid", reason="not root", fix="run as root")]))
    ['wall uid: missing, not root; to fix it: run as root']
    """
    for item in missing:
        fix = f"; to fix it: {one_line(item.fix)}" if item.fix else ""
        yield f"{kind} {item.wall}: missing, {one_line(item.reason) or NO_VALUE}{fix}"


@dataclass(frozen=True)
class Demand:
    """The least level and the timing tiers; `is_own` if the operator named them."""

    level_min: str
    tiers: tuple[str, ...]
    is_own: bool = False


def choose_demand(offer: Offer, level_min: str | None) -> Demand:
    """Return the operator's demand, else what this machine offers; tiers follow the level.

    >>> weak = Offer(level="weak", tier="C2", device="cpu")
    >>> choose_demand(weak, None)
    Demand(level_min='weak', tiers=('G1', 'G2', 'C1', 'C2'), is_own=False)
    >>> choose_demand(weak, "strong")
    Demand(level_min='strong', tiers=('G1', 'G2', 'C1'), is_own=True)
    """
    level = level_min or offer.level
    own = () if level == STRONG and level_min else (offer.tier,)
    tiers = dict.fromkeys((*TIERS, *(tier for tier in own if tier)))
    return Demand(level, tuple(tiers), is_own=level_min is not None)


def demand_environ(demand: Demand) -> dict[str, str]:
    """Return the environment variables that pass a demand to the agent and the ranker."""
    values = {"LEVEL_MIN": demand.level_min, "TIERS": " ".join(demand.tiers)}
    services = ("WARPBOARD_GPU_AGENT", "WARPBOARD_RANKER")
    return {f"{service}_{name}": value for service in services for name, value in values.items()}


def demand_line(demand: Demand) -> str:
    """Describe what the rows of this platform's leaderboards are worth.

    >>> demand_line(Demand("strong", TIERS)).startswith("ranked: isolation strong")
    True
    """
    tiers = ", ".join(demand.tiers)
    description = f"ranked: isolation {demand.level_min} and above, timing tiers {tiers}"
    if demand.level_min == STRONG and set(demand.tiers) <= set(TIERS):
        return description
    return f"{description}; rows below strong with C1 are marked provisional: only for development"
