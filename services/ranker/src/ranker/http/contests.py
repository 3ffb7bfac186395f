"""The standings of contests, what was announced of them, and the review of their winners."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from msgspec import convert
from msgspec.structs import replace

from ranker.domain.contest_fold import ContestFold
from ranker.domain.contests import find_round
from ranker.http.access import CurrentReader, ReaderView, ReadSources
from ranker.http.contest_results import ContestResultsReader
from ranker.http.leaderboards import read_checkpoint, require_zone
from ranker.http.past import PastFolds
from ranker.http.responses import QueryParams, json_response
from ranker.service.contest_confirmations import read_announced
from ranker.service.contests import ContestStandings, StandingKey, decode_definition
from shared.api import contest_standings as models
from shared.clock import now
from shared.contests.definition import ROUNDS, Contest, ContestPlace
from shared.contests.visibility import ShownRanks, find_shown_ranks
from shared.errors import Refused
from shared.http import DocumentedRoute, TypedResponse
from shared.json_types import InstantOrNaive
from shared.presentation.contests import find_outdated

SLUG_CHARS_SHOWN = 100

Row = dict[str, Any]


class StandingQuery(QueryParams):
    """The round, by default the newest one that began, and the instant, by default now."""

    round: models.StandingRound | None = None
    as_of: InstantOrNaive | None = None


@dataclass(frozen=True)
class KnownContest:
    """The newest definition of a contest."""

    contest: Contest
    number: int


def contests_router(sources: ReadSources) -> APIRouter:
    """The routes of contests."""
    router = APIRouter(route_class=DocumentedRoute)
    standings = ContestStandings(sources.reads, sources.progress)
    results = ContestResultsReader(sources, standings)
    past = PastFolds(sources.archive, "standings")

    @router.get("/v1/contests/{slug}/standing")
    async def read_standing(
        request: Request,
        reader: CurrentReader,
        slug: str,
        query: Annotated[StandingQuery, Query()],
    ) -> TypedResponse[models.ContestStanding]:
        """The standing of a contest after a round, by division; `practice` is after the close.

        While a phase freezes or hides the ranks, only organisers and operators see all. `as_of`
        is the standing that the log gave at an instant.
        """
        view, at = sources.view(reader), now()
        as_of = require_zone(query.as_of)
        known = await find_contest(view, slug)
        contest = known.contest
        # What the phase of now hides is hidden of any instant.
        ranks = ShownRanks() if view.organises(contest) else find_shown_ranks(contest, at)
        if as_of is None or ranks.is_hidden:
            seq = await read_checkpoint(sources.reads)
            round_ = query.round or find_round(contest, as_of or at)
            key = StandingKey(contest.slug, known.number, round_, ranks.until_at)
            divisions = [] if ranks.is_hidden else await standings.derive(contest, key)
        else:
            at = min(as_of, at)
            state = ContestFold(contest.slug)
            seq = await past.fold(lambda archive: archive.read_contest(state.slug, at), state.fold)
            contest = _require_definition(state, as_of)
            round_ = query.round or find_round(contest, at)
            divisions = state.derive(round_, ranks.until_at, at)
        if not ranks.is_live:
            divisions = [_hide_finalists(part) for part in divisions]
        body = models.ContestStanding(
            contest=contest.slug,
            title=contest.title,
            round=round_,
            state=await _find_state(view, contest, round_, ranks, divisions),
            is_hidden=ranks.is_hidden,
            until_at=ranks.until_at,
            divisions=await _add_names(view, contest, divisions),
            as_of=seq,
            as_of_at=as_of,
        )
        return json_response(request, body, seq)

    @router.get("/v1/contests/{slug}/results")
    async def read_results(
        request: Request, reader: CurrentReader, slug: str
    ) -> TypedResponse[models.ContestResults]:
        """The results of a contest, once they are announced and the phase shows ranks.

        Of each winner they say whether other agents confirmed the runs. Organisers and operators
        also see the check lists: what the reviewers look at, and what they decided.
        """
        view = sources.view(reader)
        known = await find_contest(view, slug)
        body, seq = await results.read(view, known.contest, known.number)
        return json_response(request, body, seq)

    return router


async def find_contest(view: ReaderView, slug: str) -> KnownContest:
    """A contest by its slug. Raises Refused."""
    rows = await view.rows("contests", contest=slug)
    if not rows:
        reason = f"there is no contest {slug[:SLUG_CHARS_SHOWN]!r}"
        raise Refused("not_found", reason, "slug")
    return KnownContest(decode_definition(rows[0]), rows[0]["number"])


async def _find_state(
    view: ReaderView,
    contest: Contest,
    round_: models.StandingRound,
    ranks: ShownRanks,
    divisions: Iterable[models.DivisionStanding],
) -> models.StandingState:
    """The state of a standing; it is final only while its places are those of the results."""
    if not ranks.is_live:
        return "frozen"
    last_round = max((problem.round for problem in contest.problems), key=ROUNDS.index)
    if round_ != last_round:
        return "live"
    announced = await read_announced(view.reads, contest.slug)
    stages = [stage for stage in ("proposed", "confirmed") if stage in announced]
    if not stages:
        return "live"
    newest = max(stages, key=lambda stage: int(announced[stage]["seq"]))
    places = convert(announced[newest]["places"], list[ContestPlace])
    if find_outdated(places, divisions, {}) is not None:
        return "live"
    return "final" if newest == "confirmed" else "provisional"


def _hide_finalists(part: models.DivisionStanding) -> models.DivisionStanding:
    """Hide who was admitted to the finals: that tells who leads the live standing."""
    return replace(part, rows=[replace(row, is_finalist=False) for row in part.rows])


async def _add_names(
    view: ReaderView, contest: Contest, divisions: Iterable[models.DivisionStanding]
) -> list[models.DivisionStanding]:
    """Add the names of people; entries on leaderboards that the reader cannot see are left out."""
    divisions = list(divisions)
    accounts = {member for part in divisions for row in part.rows for member in row.members}
    names, boards = await asyncio.gather(
        view.rows("participant_names", accounts=sorted(accounts)),
        view.rows("contest_boards", problems=[problem.slug for problem in contest.problems]),
    )
    by_account: Mapping[str, str | None] = {row["account"]: row["name"] for row in names}
    visible = {
        board["slug"] for board in boards if view.sees_board(board["slug"], board["visibility"])
    }
    return [
        replace(part, rows=[_show_row(row, by_account, visible) for row in part.rows])
        for part in divisions
    ]


def _show_row(
    row: models.ContestStandingRow, names: Mapping[str, str | None], visible: set[str]
) -> models.ContestStandingRow:
    own_names = [names.get(member) for member in row.members]
    return replace(
        row,
        name=row.name if row.name is not None else names.get(row.contestant),
        names=own_names,
        entries=[entry for entry in row.entries if entry.problem in visible],
    )


def _require_definition(state: ContestFold, at: datetime) -> Contest:
    """The definition of an instant. Raises Refused."""
    if state.contest is None:
        reason = f"there was no contest {state.slug!r} at {at.isoformat()}"
        raise Refused("not_found", reason, "as_of")
    return state.contest
