"""The pages of participants: everybody's profile, and the list of one's own submissions."""

import asyncio
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple, get_args
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response

from ingest.login.web import NotLoggedIn, Web
from ingest.ports import ReadProxy
from ingest.site.charts import ProgressChart, draw_progress
from ingest.site.reads import PageReads, api_path, find_visitor, read_if_possible, read_in_time
from shared.api.cases import OwnMilestone, OwnMilestones
from shared.api.fields import Mode
from shared.api.leaderboards import PublicParticipant
from shared.api.submissions import LISTED_STATES, NewestSubmissions, OwnSubmissions, SubmissionLine

OWN_SUBMISSIONS = "/me/submissions"
OWN_SUBMISSIONS_PER_PAGE = 50
FILTERS = ("problem", "gpu", "mode", "state", "tag")
# Charts are drawn from this many ranked submissions, the newest; the table shows fewer.
RANKED_MAX, RANKED_LISTED_MAX = 200, 50
CHARTS_MAX = 12
MILESTONES_MAX = 100


class BoardProgress(NamedTuple):
    """The chart of a participant's ranked submissions to a leaderboard."""

    problem: str
    problem_version: int
    gpu: str
    chart: ProgressChart


def chart_progress(ranked: Sequence[SubmissionLine]) -> list[BoardProgress]:
    """Return a chart for each leaderboard with several scores, under its newest version."""

    def board(submission: SubmissionLine) -> tuple[str, str, int]:
        return submission.problem, submission.gpu, submission.result_version

    charts: dict[tuple[str, str], BoardProgress] = {}
    # Newer versions come first; within one, the order of the submissions stays.
    for key, group in groupby(sorted(ranked, key=board, reverse=True), board):
        problem, gpu, version = key
        if (problem, gpu) not in charts and (chart := draw_progress([*group])):
            charts[problem, gpu] = BoardProgress(problem, version, gpu, chart)
    return sorted(charts.values())[:CHARTS_MAX]


async def read_milestones(reads: PageReads) -> list[OwnMilestone]:
    """Return the milestones of the reader, whom alone the API shows them to."""
    path = api_path("me", "milestones")
    page = await read_if_possible(reads.read(path, OwnMilestones, limit=MILESTONES_MAX))
    return page.items if page else []


def add_people_pages(router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    """Add the profile of a participant, and the list of the visitor's submissions."""
    _add_profile(router, web, ranker)
    _add_own_submissions(router, web, ranker)


def _add_profile(router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    @router.get("/people/{name}")
    @router.head("/people/{name}")
    async def profile(request: Request, name: str) -> Response:
        """The places, progress, records and ranked submissions of a participant."""
        visitor = await find_visitor(request, web, ranker)
        reads = visitor.reads
        participant, submissions = await read_in_time(
            asyncio.gather(
                reads.read(api_path("participants", name), PublicParticipant),
                reads.read(
                    api_path("submissions"),
                    NewestSubmissions,
                    participant=name,
                    mode="ranked",
                    limit=RANKED_MAX,
                ),
            )
        )
        if participant.participant != name:
            return web.redirect(f"/people/{quote(participant.participant, safe='')}")
        is_own = participant.participant_id == visitor.account
        values: dict[str, Any] = {
            "participant": participant,
            "titles": {entry.problem: entry.title for entry in participant.entries},
            "is_own": is_own,
            "progress": chart_progress(submissions.items),
            "submissions": submissions.items[:RANKED_LISTED_MAX],
            "has_more": len(submissions.items) > RANKED_LISTED_MAX,
            "milestones": await read_in_time(read_milestones(reads)) if is_own else [],
        }
        return web.public_page(request, "person.html", visitor.session, **values)


def _add_own_submissions(router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    @router.get(OWN_SUBMISSIONS)
    @router.head(OWN_SUBMISSIONS)
    async def own_submissions(request: Request) -> Response:
        """The submissions of the visitor in all modes, filtered, page by page."""
        visitor = await find_visitor(request, web, ranker)
        if visitor.session is None:
            raise NotLoggedIn(OWN_SUBMISSIONS)
        query = {name: request.query_params.get(name, "").strip() for name in FILTERS}
        filters = {name: value for name, value in query.items() if value}
        cursor = request.query_params.get("cursor") or None
        path = api_path("me", "submissions")
        page = await read_in_time(
            visitor.reads.read(
                path, OwnSubmissions, **filters, cursor=cursor, limit=OWN_SUBMISSIONS_PER_PAGE
            )
        )
        first_path = f"{OWN_SUBMISSIONS}?{urlencode(filters)}" if filters else OWN_SUBMISSIONS
        next_query = urlencode(filters | {"cursor": page.next_cursor or ""})
        values: dict[str, Any] = {
            "submissions": page.items,
            "filters": query,
            "is_filtered": bool(filters),
            "is_next": cursor is not None,
            "modes": get_args(Mode),
            "states": LISTED_STATES,
            "first_path": first_path,
            "next_path": f"{OWN_SUBMISSIONS}?{next_query}" if page.next_cursor else "",
        }
        return web.public_page(request, "own_submissions.html", visitor.session, **values)
