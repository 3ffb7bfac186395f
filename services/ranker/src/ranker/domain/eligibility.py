"""Which times an operator ranks: the level of isolation and the timing tier they must have."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.errors import Refused
from shared.events import LEVELS, TIERS, CaseResult, is_at_least

# A worker that is not frozen, and a clock in the submission's own process: nobody ranks these but
# a developer on his own machine (spec/isolation.md 6.5).
DEVELOPMENT = ("C2", "G0")
GATE_NOISE_MAX = 0.02
WHY = {
    "C2": "its worker was not frozen between calls",
    "G0": "its clock was in the submission's own process",
    "G3": "its fine time was the submission's own claim",
}


@dataclass(frozen=True)
class Demand:
    """The least level of isolation, and the timing tiers, that are ranked."""

    level_min: str
    tiers: tuple[str, ...]


def demand(level_min: str, tiers: str, *, is_loopback: bool) -> Demand:
    """What an operator's settings demand; tiers apart by spaces. Errors: Refused.

    >>> demand("strong", "G1 C1", is_loopback=False)
    Demand(level_min='strong', tiers=('G1', 'C1'))
    """
    named = tuple(tiers.split())
    if level_min not in LEVELS:
        raise _bad("level_min", f"{level_min!r} is none of {', '.join(LEVELS)}")
    unknown = [tier for tier in named if tier not in TIERS]
    if unknown or not named:
        raise _bad("tiers", f"{tiers!r} is not one or more of {' '.join(TIERS)}")
    loose = [tier for tier in named if tier in DEVELOPMENT]
    if level_min in ("none", "weak"):
        loose.append(f"level {level_min}")
    if loose and not is_loopback:
        raise _bad("tiers", f"{', '.join(loose)} may be ranked on a loopback platform alone")
    return Demand(level_min, named)


def _bad(field: str, what: str) -> Refused:
    return Refused("bad_settings", f"WARPBOARD_RANKER_{field.upper()}: {what}", field)


def objection(
    wanted: Demand, level: str, tier: str, timed: Sequence[CaseResult]
) -> tuple[str, str] | None:
    """The code and the reason why a run's times are not ranked here, None if they are.

    >>> objection(Demand("strong", ("C1",)), "weak", "C1", [])
    ('not_ranked_level', 'isolation was weak; ranked runs need strong here')
    """
    if not is_at_least(level, wanted.level_min):
        reason = f"isolation was {level or 'unknown'}; ranked runs need {wanted.level_min} here"
        return "not_ranked_level", reason
    if tier not in wanted.tiers:
        why = f" ({WHY[tier]})" if tier in WHY else ""
        ranked = ", ".join(wanted.tiers)
        return "not_ranked_tier", f"timing tier {tier or 'unknown'}{why}; ranked here: {ranked}"
    noisy = next((case for case in timed if tier == "G2" and not _is_quiet(case)), None)
    if noisy is not None:
        bound = f"{GATE_NOISE_MAX:.0%}"
        reason = f"the null calls of {noisy.name} spread over more than {bound} of its time"
        return "not_ranked_tier", f"{reason}, so timing tier G2 does not rank it"
    return None


def _is_quiet(case: CaseResult) -> bool:
    """Whether the hand-over's own spread is small against the time."""
    if len(case.null_us) != 3 or case.time_us is None:
        return False
    low, _, high = case.null_us
    return high - low <= GATE_NOISE_MAX * case.time_us


def is_provisional(level: str, tier: str) -> bool:
    """Whether a time is worth less than the best we can vouch for.

    GPU tiers are, until the validation of spec/timing.md 9 has passed on a real device.
    """
    return tier != "C1" or level != "strong"


def worst_grade(grades: Iterable[str]) -> str:
    """The grade that says most against a time; "" if no case has one.

    >>> worst_grade(["ok", "trend", "noisy"]), worst_grade(["ok"]), worst_grade([""])
    ('noisy', 'ok', '')
    """
    found = [grade for grade in grades if grade]
    return max(
        found, key=lambda grade: _GRADES.index(grade) if grade in _GRADES else -1, default=""
    )


# From the harmless to the grave.
_GRADES = (
    "ok",
    "handshake_bound",
    "launch_bound",
    "host_sync",
    "trend",
    "bimodal",
    "noisy",
    "in_process",
)
