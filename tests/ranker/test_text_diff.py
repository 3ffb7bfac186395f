"""Text diffs: in the usual format, and fast for any texts."""

import difflib
import time

from hypothesis import given
from hypothesis import strategies as st

from ranker.http.comparison import unified_diff

NAMES = ("one", "two")
LINES = st.lists(st.sampled_from("abcdef"), max_size=30)


def applied(before: list[str], diff: list[str]) -> list[str]:
    """Apply a diff to a text."""
    lines, at = [], 0
    for line in diff[2:]:
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            begin = int(start) - (count != "0")
            lines += before[at:begin]
            at = begin
            continue
        if line[0] in " -":
            assert before[at] == line[1:]
            at += 1
        if line[0] in " +":
            lines.append(line[1:])
    return lines + before[at:]


@given(LINES, LINES)
def test_a_diff_leads_from_one_text_to_the_other(before: list[str], after: list[str]) -> None:
    diff = list(unified_diff(before, after, NAMES))
    assert applied(before, diff) == after
    assert bool(diff) == (before != after)


def test_an_edit_is_shown_as_everybody_shows_it() -> None:
    before = [f"line {index}" for index in range(40)]
    after = [*before[:5], "new", *before[7:30], "other", *before[31:]]
    assert list(unified_diff(before, after, NAMES)) == list(
        difflib.unified_diff(before, after, *NAMES, lineterm="")
    )


def test_texts_made_to_be_compared_for_ever_are_not() -> None:
    before = [line for index in range(2500) for line in (f"x{index % 50}", f"a{index}")]
    after = [line for index in range(2500) for line in (f"x{index % 50}", f"b{index}")]
    began = time.process_time()
    diff = list(unified_diff(before, after, NAMES))
    assert time.process_time() - began < 3
    assert applied(before, diff) == after
