"""What this machine can give, wall by wall, and how to mend what is missing."""

from collections.abc import Iterator

import msgspec

from warpboard.domain.answers import Missing
from warpboard.domain.outcome import FAILED, OK
from warpboard.domain.units import NOTHING, one_line

STRONG = "strong"


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What the harness found here."""

    level: str
    tier: str
    device: str
    kernel: str = ""
    walls: list[str] = []
    missing: list[Missing] = []
    launchers: list[str] = []
    launchers_missing: list[Missing] = []
    toolchains: dict[str, str] = {}


def exit_code(offer: Offer) -> int:
    """Whether ranked runs may be offered without the operator's opt-in."""
    return OK if offer.level == STRONG else FAILED


def lines(offer: Offer) -> Iterator[str]:
    """The offer, a line each: what is there, and of what is missing the reason and the mend."""
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


def missing_lines(missing: list[Missing], what: str = "wall") -> Iterator[str]:
    """Each thing that is missing, why, and the mend.

    >>> list(missing_lines([Missing(wall="uid", reason="not root", mend="run as root")]))
    ['wall uid: missing, not root; to mend it: run as root']
    """
    for one in missing:
        mend = f"; to mend it: {one_line(one.mend)}" if one.mend else ""
        yield f"{what} {one.wall}: missing, {one_line(one.reason) or NOTHING}{mend}"
