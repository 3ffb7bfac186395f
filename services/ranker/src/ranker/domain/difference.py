"""How one text differs from another, line by line, at a price that no pair of texts can raise."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

CONTEXT_LINES = 3
# Texts made for it cost difflib more than the square of their lines: what is larger, once equal
# beginnings and ends are set aside, is shown as replaced.
PAIRS_MAX = 400_000

Step = tuple[str, int, int, int, int]


def unified(before: Sequence[str], after: Sequence[str], names: tuple[str, str]) -> Iterator[str]:
    """The lines of a unified diff; none if the texts are equal.

    >>> list(unified(["a", "b"], ["a", "c"], ("one", "two")))
    ['--- one', '+++ two', '@@ -1,2 +1,2 @@', ' a', '-b', '+c']
    """
    matcher: SequenceMatcher[str] = SequenceMatcher(None, (), ())
    matcher.opcodes = _steps(before, after)  # type: ignore[attr-defined]
    groups = list(matcher.get_grouped_opcodes(CONTEXT_LINES))
    if groups:
        yield from (f"--- {names[0]}", f"+++ {names[1]}")
    for group in groups:
        first, last = group[0], group[-1]
        yield f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@"
        for kind, left, right, low, high in group:
            if kind == "equal":
                yield from (f" {line}" for line in before[left:right])
                continue
            yield from (f"-{line}" for line in before[left:right])
            yield from (f"+{line}" for line in after[low:high])


def _steps(before: Sequence[str], after: Sequence[str]) -> list[Step]:
    """What leads from one to the other, as difflib says it."""
    shorter = min(len(before), len(after))
    head = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    rest = shorter - head
    tail = next((at for at in range(rest) if before[-1 - at] != after[-1 - at]), rest)
    left, right = before[head : len(before) - tail], after[head : len(after) - tail]
    steps: list[Step] = [("equal", 0, head, 0, head)] if head else []
    if len(left) * len(right) <= PAIRS_MAX:
        found = SequenceMatcher(None, left, right).get_opcodes()
        steps += [(one, a + head, b + head, c + head, d + head) for one, a, b, c, d in found]
    else:
        steps.append(("replace", head, len(before) - tail, head, len(after) - tail))
    if tail:
        steps.append(
            ("equal", len(before) - tail, len(before), len(after) - tail, len(after)),
        )
    return steps


def _span(start: int, stop: int) -> str:
    """A range as unified diffs write it: lines count from 1, an empty one names the line before."""
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
