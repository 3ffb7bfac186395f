"""What a platform on this machine demands of ranked times: for a developer, what there is."""

from dataclasses import dataclass

from warpboard.domain.doctor import STRONG, Offer

# What is ranked anywhere; a loopback platform may also rank what this machine has.
TIERS = ("G1", "G2", "C1")


@dataclass(frozen=True)
class Demand:
    """The least level and the timing tiers; `is_own` if the operator named them."""

    level_min: str
    tiers: tuple[str, ...]
    is_own: bool = False


def demanded(offer: Offer, level_min: str | None) -> Demand:
    """The operator's demand, else what this machine can give; tiers follow the level.

    >>> weak = Offer(level="weak", tier="C2", device="cpu")
    >>> demanded(weak, None)
    Demand(level_min='weak', tiers=('G1', 'G2', 'C1', 'C2'), is_own=False)
    >>> demanded(weak, "strong")
    Demand(level_min='strong', tiers=('G1', 'G2', 'C1'), is_own=True)
    """
    level = level_min or offer.level
    own = () if level == STRONG and level_min else (offer.tier,)
    tiers = dict.fromkeys((*TIERS, *(tier for tier in own if tier)))
    return Demand(level, tuple(tiers), is_own=level_min is not None)


def environ(demand: Demand) -> dict[str, str]:
    """What the agent and the ranker are told of it."""
    said = {"LEVEL_MIN": demand.level_min, "TIERS": " ".join(demand.tiers)}
    services = ("WARPBOARD_GPU_AGENT", "WARPBOARD_RANKER")
    return {f"{service}_{name}": value for service in services for name, value in said.items()}


def worth(demand: Demand) -> str:
    """What a row of this platform's leaderboards is worth.

    >>> worth(Demand("strong", TIERS)).startswith("ranked: isolation strong")
    True
    """
    tiers = ", ".join(demand.tiers)
    what = f"ranked: isolation {demand.level_min} and above, timing tiers {tiers}"
    if demand.level_min == STRONG and set(demand.tiers) <= set(TIERS):
        return what
    return f"{what}; rows below strong with C1 are marked provisional: for development alone"
