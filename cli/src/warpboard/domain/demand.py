"""What this machine offers, and what a platform on it demands of ranked times."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from shared.api.agents import MissingWall
from shared.presentation.units import NO_VALUE, one_line
from warpboard.domain.exit_codes import FAILED, OK

STRONG = "strong"
# Tiers that rank anywhere; a local platform may also rank this machine's tier.
TIERS = ("G1", "G2", "C1")


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
    toolchains: dict[str, str] = {}


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
    return f"{description}; rows below strong with C1 are marked provisional: for development alone"
