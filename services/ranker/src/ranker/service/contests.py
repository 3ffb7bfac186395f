"""The standings of contests, derived from the read models and kept until an event changes them."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import msgspec

from ranker.domain.contests import (
    PRACTICE,
    ContestRun,
    CountedRuns,
    Person,
    PracticePlace,
    Roster,
    Team,
    Window,
    derive_divisions,
    find_gpu,
    find_windows,
    rank_practice,
)
from ranker.domain.places import Win
from ranker.domain.rows import LeaderboardKey
from ranker.service.decisions import Reads
from ranker.service.leaderboard import key_values
from ranker.service.progress import LeaderboardVersion, ProjectionProgress
from shared.api.contest_standings import DivisionStanding, StandingRound
from shared.clock import now
from shared.contests.definition import Contest
from shared.events import SubmissionFinished
from shared.single_flight import SingleFlight

# Standings that are kept; of a contest there are few: its rounds, practice and a freeze.
STANDINGS_MAX = 50
FINALISTS = "finalists"
RESULT_FIELDS = (
    *("run", "score_us", "process_us", "error", "freedom", "sigma_run", "delta", "grade"),
    "yardstick_us",
)

Row = dict[str, Any]


def decode_definition(row: Row) -> Contest:
    """The definition in a row of `contests`."""
    return msgspec.json.decode(row["definition"], type=Contest)


async def read_roster(reads: Reads, contest: str) -> Roster:
    """The people, teams and finalists of a contest."""
    people, teams, results = await asyncio.gather(
        *(
            reads.rows(statement, contest=contest)
            for statement in ("contest_people", "contest_teams", "contest_results")
        )
    )
    finalists = [row["places"] for row in results if row["stage"] == FINALISTS]
    return Roster(
        people={
            row["account"]: Person(
                account=row["account"],
                division=row["division"],
                team=row["team"],
                is_registered=row["is_registered"],
                is_disqualified=row["is_disqualified"],
            )
            for row in people
        },
        teams={
            row["team"]: Team(
                id=row["team"],
                name=row["name"],
                captain=row["captain"],
                division=row["division"],
                is_disqualified=row["is_disqualified"],
            )
            for row in teams
        },
        finalists=frozenset(place["contestant"] for places in finalists for place in places),
    )


async def find_boards(reads: Reads, contest: Contest) -> dict[str, LeaderboardKey]:
    """The leaderboard of each problem of a contest, under the newest version; without unknown ones.

    A problem with several GPU types, of which the contest names none, has no leaderboard.
    """
    problems = [problem.slug for problem in contest.problems]
    rows = {row["slug"]: row for row in await reads.rows("contest_boards", problems=problems)}
    return {
        problem.slug: LeaderboardKey(problem.slug, gpu, rows[problem.slug]["number"])
        for problem in contest.problems
        if problem.slug in rows and (gpu := find_gpu(problem, rows[problem.slug]["gpus"]))
    }


class _BoardPart(NamedTuple):
    runs: list[ContestRun]
    wins: dict[str, dict[str, Win]]
    counts: dict[str, int]


@dataclass(frozen=True)
class RoundReader:
    """Reads what counts in a round of a contest, without participants banned at an instant."""

    reads: Reads
    contest: Contest
    round: StandingRound
    at: datetime

    async def read(self, windows: Mapping[str, Window]) -> CountedRuns:
        """What counts within these windows of the problems. Raises Failed."""
        boards = await find_boards(self.reads, self.contest)
        boards = {slug: board for slug, board in boards.items() if slug in windows}
        parts = await asyncio.gather(
            *(self._read_board(board, windows[slug]) for slug, board in boards.items())
        )
        counts: dict[str, int] = {}
        for part in parts:
            for contestant, count in part.counts.items():
                counts[contestant] = counts.get(contestant, 0) + count
        return CountedRuns(
            runs={slug: part.runs for slug, part in zip(boards, parts, strict=True)},
            wins={slug: part.wins for slug, part in zip(boards, parts, strict=True)},
            gpus={slug: board.gpu for slug, board in boards.items()},
            submissions_counts=counts,
        )

    async def _read_board(self, board: LeaderboardKey, window: Window) -> _BoardPart:
        interval = {"from_at": window.from_at, "until_at": window.until_at}
        slug = self.contest.slug
        whose = {"contest": None if self.round == PRACTICE else slug, "at": self.at}
        rows, wins, counts = await asyncio.gather(
            self.reads.rows("contest_runs", **key_values(board), **interval, **whose),
            self.reads.rows("contest_wins", **key_values(board)),
            self.reads.rows("contest_submissions", problem=board.problem, contest=slug, **interval),
        )
        return _BoardPart(
            [_make_run(row, self.round) for row in rows],
            _group_wins(wins),
            {row["contestant"]: row["submissions_count"] for row in counts},
        )


def _group_wins(wins: Sequence[Row]) -> dict[str, dict[str, Win]]:
    by_winner: dict[str, dict[str, Win]] = {}
    for win in wins:
        beaten = by_winner.setdefault(win["winner"], {})
        beaten[win["loser"]] = Win(win["ratio"], win["low"], win["high"])
    return by_winner


async def read_practice(reads: Reads, board: LeaderboardKey, at: datetime) -> list[PracticePlace]:
    """The practice leaderboard after the deadline, without participants banned at an instant.

    Raises Failed.
    """
    rows, wins = await asyncio.gather(
        reads.rows("practice_runs", **key_values(board), at=at),
        reads.rows("contest_wins", **key_values(board)),
    )
    runs = [_make_run(row, PRACTICE) for row in rows]
    return await asyncio.to_thread(rank_practice, runs, _group_wins(wins))


def _make_run(row: Row, round_: StandingRound) -> ContestRun:
    values = {name: row[name] for name in RESULT_FIELDS}
    return ContestRun(
        submission=row["submission"],
        account=row["account"],
        contestant=row["account"] if round_ == PRACTICE else row["contestant"],
        number=row["number"],
        source=row["source"],
        received_at=row["received_at"],
        result=SubmissionFinished(
            outcome="passed", is_eligible=True, code="ranked", reason="", **values
        ),
    )


class StandingKey(NamedTuple):
    """A standing: of a version of a contest, a round, and what was received before an instant."""

    contest: str
    number: int
    round: StandingRound
    until_at: datetime | None


class _DerivedStanding(NamedTuple):
    version: tuple[LeaderboardVersion, ...]
    made_at: float
    divisions: list[DivisionStanding]


@dataclass
class ContestStandings:
    """Derives standings, and answers with the same one while no event has changed it.

    Bans end by the clock, without an event, so a standing is derived again after `age_s_max`.
    """

    reads: Reads
    progress: ProjectionProgress
    clock: Callable[[], float] = time.monotonic
    age_s_max: float = 5.0
    _known: "OrderedDict[StandingKey, _DerivedStanding]" = field(default_factory=OrderedDict)
    _running: SingleFlight[tuple[StandingKey, tuple[LeaderboardVersion, ...]], _DerivedStanding] = (
        field(default_factory=SingleFlight)
    )

    async def derive(self, contest: Contest, key: StandingKey) -> list[DivisionStanding]:
        """The standing of each division at this moment. Raises Failed."""
        version = tuple(
            self.progress.leaderboard_version(problem.slug) for problem in contest.problems
        )
        standing = self._known.get(key)
        if standing is None or not self._holds(standing, version):
            read = partial(self._read, contest, key, version)
            standing = self._known[key] = await self._running.join((key, version), read)
            while len(self._known) > STANDINGS_MAX:
                self._known.popitem(last=False)
        return standing.divisions

    def _holds(self, standing: _DerivedStanding, version: tuple[LeaderboardVersion, ...]) -> bool:
        is_young = self.clock() - standing.made_at <= self.age_s_max
        return is_young and standing.version == version

    async def _read(
        self, contest: Contest, key: StandingKey, version: tuple[LeaderboardVersion, ...]
    ) -> _DerivedStanding:
        made_at = self.clock()
        reader = RoundReader(self.reads, contest, key.round, now())
        counted = await reader.read(find_windows(contest, key.round, key.until_at))
        roster = await read_roster(self.reads, contest.slug)
        derive = partial(derive_divisions, contest, key.round, roster, counted)
        return _DerivedStanding(version, made_at, await asyncio.to_thread(derive))
