"""Who may read what: the one place where reads are filtered.

A closed leaderboard, and all that is of it, exists for its members and for staff alone. Of others'
submissions a ranked one shows a summary, with the times of its public cases once it is on the
leaderboard, and what is not ranked does not exist; one's own are as
others' to a token that is limited to other problems. A source is its owner's and staff's; others
read it as the release policy of its version says, while its owner accepts what that asks. Hidden
cases say their verdict and no more, and the key of a run's seeds is shown to nobody at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import msgspec
from fastapi import Depends, Request

from ranker.domain.release import Source, hidden
from ranker.domain.score import with_interval
from ranker.service import Reads
from shared.clock import now
from shared.errors import Refused
from shared.events import StageResult
from shared.reader import HEADER, decode
from shared.reader import Reader as Who

CLOSED = "closed"
RANKED = "ranked"
# The name that a hidden case goes by.
HIDDEN, HIDDEN_STAGE = "hidden", "hidden_check"
TIME = "time"
PROGRESS = ("stage", "case", "done", "total")
# A run has fewer; an agent may claim more.
STAGES_MAX = 16
Row = dict[str, Any]

SUMMARY = (
    *("id", "number", "account", "participant", "problem", "problem_number", "gpu", "mode"),
    *("received_at", "deadline_at", "state", "state_since", "state_deadline_at", "state_owner"),
    *("version", "is_over", "outcome", "verdict", "code", "is_eligible", "is_held", "score_us"),
    *("run_us", "pooled_over", "result_version", "low_us", "high_us", "grade", "is_provisional"),
    *("level", "tier", "finished_at"),
)
RANKING = (
    *("status", "eligible", "code", "gpu", "rank", "is_tied", "tied_with", "score_us", "run_us"),
    *("pooled_over", "interval_us", "score", "ci95", "best_number", "delta_to_best"),
    *("delta_to_next", "problem_version", "decided_at"),
)
# What everybody sees of a timed case of what is on a leaderboard.
TIMED = ("name", "stage", "verdict", "time_us", "interval_us", "roofline", "vs_baseline")
# What of a leaderboard's rows would say more of a submission than its summary.
PRIVATE = ("name", "reason", "note", "tag")


def who(request: Request) -> Who:
    """Who asks, as ingest says it; whoever comes without its word sees what is public."""
    return decode(request.headers.get(HEADER))


Asker = Annotated[Who, Depends(who)]


@dataclass(frozen=True)
class Seen:
    """The read models as one reader sees them."""

    reads: Reads
    who: Who

    async def rows(self, statement: str, **values: object) -> list[Row]:
        """The rows of a statement, which may ask who reads. Errors: Failed."""
        asking = {
            "reader": self.who.account,
            "is_staff": self.who.is_staff,
            "members_of": self.who.boards,
            "limited_to": self.who.problems,
        }
        return await self.reads.rows(statement, **asking, **values)

    def sees_board(self, slug: str, visibility: str) -> bool:
        """Whether a leaderboard exists for them."""
        return visibility != CLOSED or self.who.is_staff or slug in self.who.boards

    def owns(self, row: Mapping[str, Any]) -> bool:
        """Whether they see all of a submission."""
        if row.get("baseline"):
            return self.authors(row["problem"])
        limits = self.who.problems
        is_theirs = row["account"] == self.who.account
        return self.who.is_staff or (is_theirs and (not limits or row["problem"] in limits))

    def authors(self, slug: str) -> bool:
        """Whether they see what a problem's author sees."""
        return self.who.is_staff or slug in self.who.owned

    def sees(self, row: Mapping[str, Any]) -> bool:
        """Whether a submission exists for them; a baseline is its author's and staff's."""
        if row["baseline"]:
            return self.authors(row["problem"])
        is_open = self.sees_board(row["problem"], row["visibility"])
        return is_open and (self.owns(row) or row["mode"] == RANKED)

    def sees_source(self, row: Mapping[str, Any], at: datetime) -> bool:
        """Whether they may read a submission's source, which they see."""
        return self.source_hidden(row, at) is None

    def source_hidden(self, row: Mapping[str, Any], at: datetime) -> str | None:
        """Why they may not read a submission's source, and when they may; None if they may."""
        if self.owns(row):
            return None
        if row["mode"] != RANKED:
            return "sources of ranked submissions alone are shown"
        source = Source(
            policy=row["source_visible"],
            deadline_at=row["board_deadline_at"],
            is_withdrawn=row["is_withdrawn"],
            is_consented=row["is_consented"],
        )
        return hidden(source, at)

    async def submission(self, number: int) -> Row:
        """A submission that exists for them, whole. Errors: Refused; Failed."""
        rows = await self.rows("submission", number=number, at=now())
        if not rows or not self.sees(rows[0]):
            raise unknown(number)
        return with_interval(rows[0])

    async def own(self, number: int) -> Row:
        """A submission all of which they see. Errors: Refused; Failed."""
        row = await self.submission(number)
        if not self.owns(row):
            raise Refused("no_access", f"submission {number} is somebody else's", "number")
        return row

    def page(self, shown: Row) -> Row:
        """A submission's page, as much of it as they may see."""
        if self.owns(shown):
            return shown
        ranking, timeline = shown["ranking"], shown["timeline"]
        return {name: shown[name] for name in SUMMARY} | {
            "name": "",
            "problem_version": shown["problem_number"],
            "created_at": shown["received_at"],
            "source": shown["source"],
            "ranking": ranking and {name: ranking[name] for name in RANKING},
            "timeline": [line | {"note": "", "actor": ""} for line in timeline],
            "cases": times(shown["cases"]) if _is_on_board(ranking) else [],
            "blobs": [],
            "files": [],
            "queue": None,
        }

    def line(self, row: Row) -> Row:
        """A submission in a list, as much of it as they may see."""
        if self.owns(row):
            return row
        return row | {name: "" if name == "name" else None for name in PRIVATE if name in row}


def unknown(number: int) -> Refused:
    """What is said of a submission that does not exist for who asks."""
    return Refused("unknown_submission", f"there is no submission {number}", "number")


def times(cases: list[Row]) -> list[Row]:
    """The times of public cases, as everybody sees them.

    >>> times([{"name": "n=7", "stage": "time", "is_hidden": False, "time_us": 2.0, "samples": 9}])
    [{'name': 'n=7', 'stage': 'time', 'time_us': 2.0, 'is_hidden': False}]
    """
    shown = (one for one in cases if one["stage"] == TIME and one.get("time_us") is not None)
    return [
        {name: one[name] for name in TIMED if name in one} | {"is_hidden": False}
        for one in shown
        if not one.get("is_hidden")
    ]


def _is_on_board(ranking: Row | None) -> bool:
    return ranking is not None and ranking["status"] == "ranked"


def safe_progress(said: Row | None) -> Row | None:
    """The case at hand as it may be told, and the stages that ended; of a hidden one no name.

    >>> safe_progress({"stage": "hidden_check", "case": "n=7", "done": 1, "total": 3})
    {'stage': 'hidden_check', 'case': 'hidden', 'done': 1, 'total': 3, 'stages': []}
    """
    if said is None:
        return None
    told = {name: said.get(name) for name in PROGRESS} | {"stages": _stages(said.get("stages"))}
    return told | {"case": HIDDEN} if said.get("stage") == HIDDEN_STAGE else told


def _stages(said: object) -> list[Row]:
    """The stages that an agent says have ended; none if it says anything else."""
    try:
        stages = msgspec.convert(said, list[StageResult])[:STAGES_MAX]
    except msgspec.ValidationError:
        return []
    return [msgspec.structs.asdict(stage) for stage in stages]


def safe_case(case: Row) -> Row:
    """A case as it may leave: of a hidden one its stage and its verdict alone.

    >>> safe_case({"name": "n=7", "stage": "check", "verdict": "passed", "is_hidden": True})
    {'name': 'hidden', 'stage': 'check', 'verdict': 'passed', 'is_hidden': True}
    """
    if not case.get("is_hidden"):
        return case
    kept = {name: case[name] for name in ("stage", "verdict")}
    return {"name": HIDDEN, **kept, "is_hidden": True}
