"""Which post of the forum is which problem's: told before anything is kept."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from discord_edge.domain.wording import escaped

What = Literal["kept", "paired", "missing", "strange"]
SAYS: Mapping[str, str] = {
    "kept": "✅ {problem}: its post is there",
    "paired": "🔗 {problem}: the post that bears its name is its own from now on",
    "missing": "⏭️ {problem}: no post of the bot's bears its name; the next news of it makes one",
    "strange": "❓ {problem}: a post of the bot's that is no problem's",
}


class Pair(NamedTuple):
    """A problem, or what a post without one is called; what it is, and the post's id if there."""

    problem: str
    what: What
    post: str | None


def pairs(problems: list[str], kept: Mapping[str, str], posts: Mapping[str, str]) -> list[Pair]:
    """What is so of every problem and of every post; `posts` are the bot's own, by id.

    A post that is kept stays, whatever it is called by now; else the one with the problem's name.

    >>> pairs(["copy", "sum"], {"copy": "7"}, {"7": "renamed", "8": "sum", "9": "old"})[1:]
    [Pair(problem='sum', what='paired', post='8'), Pair(problem='old', what='strange', post='9')]
    """
    taken = {kept[one] for one in problems if kept.get(one) in posts}
    found = []
    for problem in problems:
        own = kept.get(problem)
        if own in taken:
            found.append(Pair(problem, "kept", own))
            continue
        named = [one for one, name in posts.items() if name == problem and one not in taken]
        found.append(Pair(problem, "paired" if named else "missing", next(iter(named), None)))
        taken.update(named[:1])
    strange = [Pair(name, "strange", one) for one, name in posts.items() if one not in taken]
    return found + strange


def said(pair: Pair) -> str:
    """A pair in a line.

    >>> said(Pair("copy", "kept", "7"))
    '✅ copy: its post is there'
    """
    return SAYS[pair.what].format(problem=escaped(pair.problem, 100))
