"""Text diffs: in the usual format, and fast for any texts."""

import difflib
import time

from hypothesis import given
from hypothesis import strategies as st

from ranker.http.comparison import compare_files, unified_diff
from shared.source_files import SourceFile

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


def test_submissions_are_compared_file_by_file() -> None:
    first = [
        SourceFile("k.py", b"import h\n"),
        SourceFile("a.h", b"x\n"),
        SourceFile("b.h", b"y\n"),
    ]
    second = [
        SourceFile("k2.py", b"import g\n"),
        SourceFile("b.h", b"y\n"),
        SourceFile("c.h", b"z\n"),
    ]
    compared = compare_files(first, second, (12, 15))
    assert [(file.name, file.change) for file in compared] == [
        ("k2.py", "changed"),
        ("a.h", "removed"),
        ("b.h", "same"),
        ("c.h", "added"),
    ]
    assert compared[0].diff.splitlines()[:2] == [
        "--- submission 12/k2.py",
        "+++ submission 15/k2.py",
    ]
    assert compared[1].diff.splitlines()[-1] == "-x"
    assert (compared[2].diff, compared[3].diff.splitlines()[-1]) == ("", "+z")


def test_single_files_are_named_by_their_submissions() -> None:
    files = [SourceFile("k.py", b"a\n")], [SourceFile("k.py", b"b\n")]
    (compared,) = compare_files(*files, (12, 15))
    assert compared.diff.splitlines()[:2] == ["--- submission 12", "+++ submission 15"]
