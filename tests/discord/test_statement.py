"""A statement as Discord shows it."""

from hypothesis import example, given
from hypothesis import strategies as st

from discord_edge.wording import FENCE, render_statement

LINES = st.sampled_from(
    [
        *("", "", "words of", "- an item", "  goes on", "| a | b |", "|---|---|", "| `c` |", "|"),
        *("$$x$$", "$$", "cost $5 and $n^2$", "```python", "```", "# head", "1. one", "> quote"),
        "x" * 50,
    ]
)


@given(st.lists(LINES, max_size=30), st.integers(10, 300))
@example(["```"], 10)
@example(["$$$$"], 10)
def test_it_fits_and_leaves_no_block_open(lines: list[str], room: int) -> None:
    shown = render_statement("\n".join(lines), room)
    assert len(shown) <= room
    assert shown.count(FENCE) % 2 == 0


def test_lists_stay_lists_and_broken_lines_are_joined() -> None:
    text = "Read it\nonce.\n\n* one\n  half\n* two\n\n```python\na = 1\n\nb = 2\n```\nthen"
    shown = "Read it once.\n\n* one half\n* two\n\n```python\na = 1\n\nb = 2\n```\n\nthen"
    assert render_statement(text, 500) == shown
