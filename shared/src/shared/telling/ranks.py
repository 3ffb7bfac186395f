"""How a rank and a pooled score read, wherever they are shown."""

from collections.abc import Sequence

NUMBERS_MAX = 6
# Why several share a rank.
TIED = "the measurements cannot tell those of this rank apart"


def rank_text(rank: int, *, is_tied: bool) -> str:
    """Return a rank as people read it; `=` says that others share it.

    >>> rank_text(1, is_tied=True), rank_text(3, is_tied=False)
    ('1=', '3')
    """
    return f"{rank}=" if is_tied else str(rank)


def pooled_text(numbers: Sequence[int]) -> str:
    """Return over which submissions a score is pooled, as an appendix; empty for a single run.

    >>> pooled_text([47, 62]), pooled_text([47])
    (', pooled over #47, #62', '')
    >>> pooled_text(range(1, 41))
    ', pooled over #1, #2, #3, #4, #5, #6 and 34 more'
    """
    return f", pooled over {numbers_text(numbers)}" if len(numbers) > 1 else ""


def numbers_text(numbers: Sequence[int]) -> str:
    """Return the numbers of submissions, the first few of many.

    >>> numbers_text([47, 62])
    '#47, #62'
    """
    shown = ", ".join(f"#{number}" for number in numbers[:NUMBERS_MAX])
    more = len(numbers) - NUMBERS_MAX
    return f"{shown} and {more} more" if more > 0 else shown
