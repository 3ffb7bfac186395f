"""What an event of ours means to the outside: its kind, and the few fields that leave.

Fields are named one by one, so that no source, no file name and no message of a run ever leaves.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from ranker.hooks.standing import Telling
from shared import events
from shared.event_log import Recorded
from shared.ids import derived
from shared.subjects import last_token

AGGREGATES = ("submission.>", "moderation.>", "rejudge.>")
ENDED, RANKED, HELD = "submission.ended", "submission.ranked", "submission.held"
OVERTAKEN = "entry.overtaken"
OPENED, VERSION = "problem.opened", "problem.version_published"
MOVED, CLOSED = "problem.deadline_moved", "problem.closed"
APPLIED = "rejudge.applied"
ENDS = ("SubmissionFinished", "SubmissionRejected")
BACK = ("SubmissionReleased", "SubmissionRestored")
OF_SUBMISSIONS = frozenset((*ENDS, *BACK, "SubmissionHeld"))
OF_PROBLEMS = frozenset(("ProblemPublished", "LeaderboardChanged", "LeaderboardArchived"))
REJUDGED = "RejudgeApplied"
TYPES = OF_SUBMISSIONS | OF_PROBLEMS | {REJUDGED}

Row = Mapping[str, Any]


def kinds_of(event: Recorded, row: Row) -> list[str]:
    """What an event of a submission is called outside; `row` is the submission as it is now.

    What came off its leaderboard meanwhile is not told as ranked.
    """
    kind, fact = event.envelope.type, event.fact
    if kind == "SubmissionHeld":
        return [HELD]
    found = [ENDED] if kind in ENDS else []
    if isinstance(fact, events.SubmissionFinished) and fact.is_held:
        found.append(HELD)
    elif kind != "SubmissionRejected" and row["mode"] == "ranked" and row["counts"]:
        found.append(RANKED)
    return found


def of_submission(event: Recorded, kind: str, row: Row, rank: int | None) -> Telling:
    """An event of a submission, for its owner alone."""
    data = {
        "submission": row["number"],
        "problem": row["problem"],
        "problem_version": row["problem_number"],
        "gpu": row["gpu"],
        "mode": row["mode"],
        "url": f"/v1/submissions/{row['number']}",
    }
    if kind in (ENDED, RANKED):
        names = ("outcome", "verdict", "code", "is_eligible", "score_us")
        data |= {name: row[name] for name in names}
    if kind == RANKED:
        data |= {"rank": rank}
    return Telling(
        event=derived(event.envelope.id, kind),
        kind=kind,
        at=event.envelope.at,
        problem=row["problem"],
        data=data,
        account=row["account"],
        seq=event.seq,
    )


def of_entry(event: Recorded, row: Row, passed: Row) -> Telling:
    """An entry that somebody else's submission is now ahead of, for the owner of the entry."""
    data = {
        "submission": passed["number"],
        "problem": row["problem"],
        "problem_version": row["problem_number"],
        "gpu": row["gpu"],
        "score_us": passed["score_us"],
        "by_submission": row["number"],
        "by_score_us": row["score_us"],
        "url": f"/v1/submissions/{row['number']}",
    }
    return Telling(
        event=derived(event.envelope.id, f"{OVERTAKEN}/{passed['account']}"),
        kind=OVERTAKEN,
        at=event.envelope.at,
        problem=row["problem"],
        data=data,
        account=passed["account"],
        seq=event.seq,
    )


def of_problem(event: Recorded) -> Iterator[Telling]:
    """An event of a problem, for all who see its leaderboard."""
    fact, slug = event.fact, last_token(event.envelope.agg)
    match fact:
        case events.ProblemPublished():
            kind = OPENED if fact.number == 1 else VERSION
            data = {"problem_version": fact.number, "title": fact.title, "gpus": fact.gpus}
            yield _of_board(event, kind, slug, data)
        case events.LeaderboardChanged():
            if fact.visibility == "public":
                yield _of_board(event, OPENED, slug, {})
            if fact.has_deadline is not None:
                ends_at = fact.deadline_at and fact.deadline_at.isoformat()
                yield _of_board(event, MOVED, slug, {"deadline_at": ends_at})
        case events.LeaderboardArchived():
            yield _of_board(event, CLOSED, slug, {"why": "archived"})


def of_rejudge(event: Recorded, row: Row) -> Telling:
    """A rejudge whose results count, for all who see the leaderboard."""
    data = {
        "rejudge": row["id"],
        "from_version": row["from_number"],
        "to_version": row["to_number"],
        "submissions": row["count"],
        "changed": row["changed_count"],
    }
    return _of_board(event, APPLIED, row["problem"], data)


def _of_board(event: Recorded, kind: str, slug: str, data: dict[str, Any]) -> Telling:
    whole = {"problem": slug, **data, "url": f"/v1/problems/{slug}"}
    id_, at = derived(event.envelope.id, kind), event.envelope.at
    return Telling(id_, kind, at, slug, whole, seq=event.seq)


def of_deadline(slug: str, ended_at: datetime) -> Telling:
    """A deadline that passed; it has one id, whoever notices and however often."""
    instant = ended_at.isoformat()
    data = {
        "problem": slug,
        "why": "deadline",
        "deadline_at": instant,
        "url": f"/v1/problems/{slug}",
    }
    return Telling(derived(f"problem/{slug}/{instant}", CLOSED), CLOSED, ended_at, slug, data)
