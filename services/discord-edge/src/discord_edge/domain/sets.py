"""What comes of a repository's problems, and what was found of one, in lines."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from discord_edge.domain.wording import CONTENT_MAX, escaped

Said = Mapping[str, Any]
HEADS = {"created": "🆕", "updated": "♻️"}
# What is left of a message for what is said around its lines.
LINES_MAX = CONTENT_MAX - 300


def is_idle(said: Said) -> bool:
    """Whether nothing is to be published.

    >>> is_idle({"created": [], "updated": []}), is_idle({"created": ["copy"], "updated": []})
    (True, False)
    """
    return not any(said.get(head) for head in HEADS)


def plan(said: Said) -> list[str]:
    """A line for each problem: created, updated, skipped with a reason, or an error.

    >>> plan({"created": ["a"], "skipped": [{"name": "b", "reason": "no changes"}]})
    ['🆕 created: a', '⏭️ skipped: b (no changes)']
    """
    lines = [
        f"{mark} {head}: {escaped(str(name))}"
        for head, mark in HEADS.items()
        for name in said.get(head, ())
    ]
    for head, mark, why in (("skipped", "⏭️ skipped", "reason"), ("errors", "❌ error", "error")):
        lines += [
            f"{mark}: {escaped(str(one['name']))} ({escaped(str(one[why]))})"
            for one in said.get(head, ())
        ]
    return lines


def merged(came: Said, before: Mapping[str, int], done: Collection[str]) -> dict[str, Any]:
    """What came of problems that were asked for more than once: what an earlier try published.

    `before` are the versions that there were, 0 for none; `done` is what was published since.

    >>> merged({"skipped": [{"name": "a", "reason": "no changes"}]}, {"a": 0, "b": 2}, {"a"})
    {'skipped': [], 'created': ['a'], 'updated': []}
    """
    told = {str(name) for head in HEADS for name in came.get(head, ())}
    earlier = [name for name in before if name in done and name not in told]
    skipped = [one for one in came.get("skipped", ()) if one["name"] not in earlier]
    created = [*(one for one in earlier if not before[one]), *came.get("created", ())]
    updated = [*(one for one in earlier if before[one]), *came.get("updated", ())]
    return {**came, "skipped": skipped, "created": created, "updated": updated}


def counted(said: Said) -> str:
    """How many problems came to what, with none of their names.

    >>> counted({"created": ["a"], "skipped": [{"name": "b"}]})
    '1 created, 0 updated, 1 skipped, 0 errors'
    """
    heads = ("created", "updated", "skipped", "errors")
    return ", ".join(f"{len(said.get(head, ()))} {head}" for head in heads)


def fitting(lines: Sequence[str]) -> list[str]:
    """As many lines as a message takes, and how many there are beside.

    >>> fitting(["a", "b"]), fitting(["x" * 999, "y" * 999])[1]
    (['a', 'b'], '… and 1 more')
    """
    shown: list[str] = []
    for line in lines:
        if sum(len(one) + 1 for one in shown) + len(line) > LINES_MAX:
            return [*shown, f"… and {len(lines) - len(shown)} more"]
        shown.append(line)
    return shown


def solutions(found: Sequence[Said], kind: str) -> list[str]:
    """A line for each of an author's solutions, of one kind or all.

    >>> solutions([{"name": "a.py", "kind": "wrong", "verdict": "passed", "as_expected": False}],
    ...     "all")
    ['❌ wrong a.py: passed, which is not expected']
    """
    return [
        f"{'✅' if one['as_expected'] else '❌'} {one['kind']} {escaped(str(one['name']))}: "
        f"{escaped(str(one['verdict']))}{'' if one['as_expected'] else ', which is not expected'}"
        for one in found
        if kind in ("all", one["kind"])
    ]
