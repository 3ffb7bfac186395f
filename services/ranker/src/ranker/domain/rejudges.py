"""Rejudges: new results as drafts, what applying them would change, and their application."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from ranker.domain.changes import ChangeRule, add_result, add_timeline_entry, encode
from ranker.domain.rows import DecodedEvent, Item, Rows
from shared import events
from shared.events import Fact, SubmissionFinished

Row = Mapping[str, Any]
SHOWN = ("verdict", "is_eligible", "code", "reason", "score_us")


def _rejudge_requested(rows: Rows, decoded: DecodedEvent, fact: events.RejudgeRequested) -> None:
    for item in fact.items:
        rows.items[decoded.id, item.submission] = Item(
            rejudge=decoded.id,
            submission=item.submission,
            to_number=fact.to_number,
            account=item.account,
            gpu=item.gpu,
            state="waiting",
            state_at=decoded.event.envelope.at,
        )


def _rejudge_judged(rows: Rows, decoded: DecodedEvent, fact: events.RejudgeJudged) -> None:
    item = rows.items.get((decoded.id, fact.submission))
    if item is not None:
        item.result = msgspec.Raw(encode(fact.result))
        item.move("judged", decoded.event.envelope.at)


def _rejudge_applied(rows: Rows, decoded: DecodedEvent, _fact: Fact) -> None:
    apply_rejudge(rows, decoded.id, (decoded.event.seq, decoded.event.envelope.at))
    for (rejudge, submission), item in rows.items.items():
        if rejudge == decoded.id:
            text = f"rejudged under version {item.to_number}"
            add_timeline_entry(rows.submissions.get(submission), decoded, text)


def apply_rejudge(rows: Rows, rejudge: str, since: tuple[int, datetime]) -> Rows:
    """Let the drafts of a rejudge count, except those where the platform failed."""
    for item in list(rows.items.values()):
        submission = rows.submissions.get(item.submission)
        if item.rejudge != rejudge or item.state != "judged" or submission is None:
            continue
        end = msgspec.json.decode(item.result, type=SubmissionFinished)
        if end.outcome != "infra_failed":
            add_result(rows, submission, item.to_number, end, (*since, rejudge))
    return rows


@dataclass(frozen=True)
class LeaderboardRanks:
    """Accounts by rank on one leaderboard, and the submission that holds each entry."""

    ranks: Mapping[str, int]
    submissions: Mapping[str, str]

    def rank_of(self, account: str, submission: str) -> int | None:
        """The rank of a submission, None if its participant's entry is another one."""
        return self.ranks.get(account) if self.submissions.get(account) == submission else None


def preview_rejudge(
    items: Sequence[Row],
    before: Mapping[str, LeaderboardRanks],
    after: Mapping[str, LeaderboardRanks],
) -> dict[str, Any]:
    """The items with their old and new results, and who moves on which leaderboard.

    `before` and `after` are the leaderboards of the two versions, by GPU type.
    """
    diffs = [_diff_item(item, before[item["gpu"]], after[item["gpu"]]) for item in items]
    moves = [move for gpu in sorted(before) for move in _find_moves(gpu, before[gpu], after[gpu])]
    return {"items": diffs, "moves": moves, "changed_count": sum(item["changed"] for item in diffs)}


def _diff_item(item: Row, before: LeaderboardRanks, after: LeaderboardRanks) -> dict[str, Any]:
    account, submission = item["account"], item["submission"]
    old = _result_fields(item["old"], before.rank_of(account, submission))
    new = _result_fields(item["new"], after.rank_of(account, submission))
    watched = ("verdict", "is_eligible", "rank")
    return {
        "submission": submission,
        "number": item["number"],
        "participant_id": account,
        "gpu": item["gpu"],
        "old": old,
        "new": new,
        "changed": any(old[name] != new[name] for name in watched),
    }


def _result_fields(result: Row | None, rank: int | None) -> dict[str, Any]:
    fields: dict[str, Any] = {name: result.get(name) if result else None for name in SHOWN}
    return fields | {"rank": rank}


def _find_moves(
    gpu: str, before: LeaderboardRanks, after: LeaderboardRanks
) -> list[dict[str, Any]]:
    accounts = sorted({*before.ranks, *after.ranks})
    pairs = [(name, before.ranks.get(name), after.ranks.get(name)) for name in accounts]
    return [
        {"gpu": gpu, "participant_id": account, "old_rank": old, "new_rank": new}
        for account, old, new in pairs
        if old != new
    ]


RULES = (
    ChangeRule(events.RejudgeRequested, _rejudge_requested),
    ChangeRule(events.RejudgeJudged, _rejudge_judged),
    ChangeRule(events.RejudgeApplied, _rejudge_applied),
)
