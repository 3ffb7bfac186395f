"""What a rejudge would change, as a page that people can judge it by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
SHOWN = ("verdict", "is_eligible", "code", "reason", "score_us")


@dataclass(frozen=True)
class Ranks:
    """Accounts by their rank on one leaderboard, and the submission that each stands with."""

    ranks: Mapping[str, int]
    submissions: Mapping[str, str]

    def of(self, account: str, submission: str) -> int | None:
        """The rank of a submission, None if its participant does not stand with it."""
        return self.ranks.get(account) if self.submissions.get(account) == submission else None


def diff(
    items: Sequence[Row], before: Mapping[str, Ranks], after: Mapping[str, Ranks]
) -> dict[str, Any]:
    """The items with their old and new results, and who moves on which leaderboard.

    `before` and `after` are the leaderboards of the two versions, by GPU type.
    """
    said = [_item(item, before[item["gpu"]], after[item["gpu"]]) for item in items]
    moves = [move for gpu in sorted(before) for move in _moves(gpu, before[gpu], after[gpu])]
    return {"items": said, "moves": moves, "changed_count": sum(one["changed"] for one in said)}


def _item(item: Row, before: Ranks, after: Ranks) -> dict[str, Any]:
    account, submission = item["account"], item["submission"]
    old = _side(item["old"], before.of(account, submission))
    new = _side(item["new"], after.of(account, submission))
    watched = ("verdict", "is_eligible", "rank")
    return {
        "submission": submission,
        "number": item["number"],
        "account": account,
        "gpu": item["gpu"],
        "old": old,
        "new": new,
        "changed": any(old[name] != new[name] for name in watched),
    }


def _side(result: Row | None, rank: int | None) -> dict[str, Any]:
    said: dict[str, Any] = {name: result.get(name) if result else None for name in SHOWN}
    return said | {"rank": rank}


def _moves(gpu: str, before: Ranks, after: Ranks) -> list[dict[str, Any]]:
    accounts = sorted({*before.ranks, *after.ranks})
    pairs = [(one, before.ranks.get(one), after.ranks.get(one)) for one in accounts]
    return [
        {"gpu": gpu, "account": account, "old_rank": old, "new_rank": new}
        for account, old, new in pairs
        if old != new
    ]
