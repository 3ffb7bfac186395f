"""Directives count only in the leading comment block; their keywords ignore case."""

import pytest

from shared.errors import Refused
from shared.problems.submission_file import late_directives, read_directives

HEAD = "// a kernel\n\n//!POPCORN Leaderboard matmul\n//!popcorn GPU H100 CPU\n"


def test_the_leading_block_says_board_and_gpus() -> None:
    directives = read_directives(HEAD + "int x;\n//!POPCORN gpus A100\n")
    assert (directives.leaderboard, directives.gpus) == ("matmul", ("H100", "CPU"))
    assert late_directives(HEAD) == []


def test_a_later_one_is_told_and_does_nothing() -> None:
    text = "import torch\n#!POPCORN leaderboard other\nx = 1  #!POPCORN gpus A100\n"
    assert read_directives(text).leaderboard is None
    assert late_directives(text) == [2]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#!POPCORN", "no keyword"),
        ("#!POPCORN leaderboard", "takes one name"),
        ("#!POPCORN leaderboard a b", "takes one name"),
        ("#!POPCORN gpus", "one or more"),
        ("#!POPCORN mode test", "unknown directive 'mode'"),
        ("#!POPCORN gpu A\n#!POPCORN gpus B", "line 2: a second 'gpus'"),
    ],
)
def test_an_odd_directive_is_refused_with_its_line(line: str, words: str) -> None:
    with pytest.raises(Refused, match=words) as caught:
        read_directives(f"{line}\n")
    assert caught.value.code == "bad_directive"
