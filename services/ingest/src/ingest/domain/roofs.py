"""What the event of a problem version says of the least work of its timed cases."""

from collections.abc import Iterable

from shared.events import Roof
from shared.problems.roofline import Work, floors_us


def roofs(works: Iterable[Work]) -> list[Roof]:
    """One for each timed case; the floors are those of the table as it is now."""
    return [
        Roof(
            case=one.case,
            bytes=one.bytes,
            flops=one.flops,
            dtype=one.dtype,
            floors_us=floors_us(one),
        )
        for one in works
    ]
