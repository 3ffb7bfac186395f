"""Foreign text made harmless, and sentences for who uses the bot."""

import math
import re

from shared.errors import Refused
from shared.telling.units import harmless

CONTENT_MAX = 1900
MARKS = re.compile(r"([\\*_~|>#\[\]()`-])")
# A space of no width takes the meaning from what would be a mention, and nothing from its look.
NOWHERE = "\u200b"


def escaped(text: str, length_max: int = 200) -> str:
    r"""Foreign text in one line, of which nothing is obeyed.

    >>> escaped("**bold** @everyone"), escaped("a\n`b`", 3)
    ('\\*\\*bold\\*\\* @\u200beveryone', 'a …')
    """
    line = " ".join(harmless(text).split())
    cut = line if len(line) <= length_max else line[: length_max - 1] + "…"
    return MARKS.sub(r"\\\1", cut).replace("@", f"@{NOWHERE}").replace("<", f"<{NOWHERE}")


def fenced(text: str) -> str:
    r"""Foreign text as a block that it cannot end.

    >>> fenced("a ``` b")
    '```text\na `\u200b`\u200b` b\n```'
    """
    inner = harmless(text).replace("``", f"`{NOWHERE}`").replace("``", f"`{NOWHERE}`")
    return f"```text\n{inner}\n```"


def refusal(refused: Refused, identity: str, at: float = 0.0) -> str:
    """Why not, in a sentence or two, with an id for who asks about it.

    Units: `at` is now, in seconds since 1970.

    >>> refusal(Refused("user_banned", "you are banned", retry_after_s=5.0), "7", 100.0)
    'Not done: you are banned. Try again <t:105:R>. `user_banned` · `7`'
    """
    wait_s = refused.retry_after_s
    again = "" if wait_s is None else f" Try again <t:{math.ceil(at + wait_s)}:R>."
    reason = harmless(refused.reason).replace("@", f"@{NOWHERE}").rstrip(".")
    return f"Not done: {reason[:1500]}.{again} `{refused.code}` · `{identity}`"
