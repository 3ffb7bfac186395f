"""The rating of participants over all problems."""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from msgspec.structs import replace
from pydantic import Field

from ranker.domain.rating_fold import RatingFold
from ranker.http.access import CurrentReader, ReadSources
from ranker.http.leaderboards import require_zone
from ranker.http.past import PastFolds
from ranker.http.responses import LIMIT_MAX, QueryParams, json_response
from ranker.service.decisions import Reads
from ranker.service.rating import read_hidden_problems
from shared.api import rating as models
from shared.clock import now
from shared.http import DocumentedRoute, TypedResponse
from shared.json_types import InstantOrNaive

AFTER_MAX = 10_000_000


class RatingQuery(QueryParams):
    """Which participants, and the instant, by default now."""

    after: Annotated[int, Field(ge=0, le=AFTER_MAX)] = 0
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = 50
    as_of: InstantOrNaive | None = None


def rating_router(sources: ReadSources) -> APIRouter:
    """The route of the rating."""
    router = APIRouter(route_class=DocumentedRoute)
    past = PastRatings(sources.reads, PastFolds(sources.archive, "ratings"))

    @router.get("/v1/rating")
    async def read_rating(
        request: Request, reader: CurrentReader, query: Annotated[RatingQuery, Query()]
    ) -> TypedResponse[models.Ratings]:
        """Participants by their rating over all problems, the best first.

        It is at most ten seconds old, and the same for every reader. `after` leaves out so many.
        With `as_of` it is the rating that the log gave at that instant, without what is hidden now.
        """
        as_of = require_zone(query.as_of)
        if as_of is None:
            rating_list = await sources.rating.read()
            seq, at, ratings = rating_list.seq, rating_list.at, rating_list.ratings
        else:
            at = min(as_of, now())
            seq, ratings = await past.read(at)
        end = query.after + query.limit
        page = ratings[query.after : end]
        accounts = sorted({rating.participant_id for rating in page})
        rows = await sources.view(reader).rows("participant_names", accounts=accounts)
        names = {row["account"]: row["name"] for row in rows}
        body = models.Ratings(
            items=[add_name(rating, names) for rating in page],
            total=len(ratings),
            next_after=None if end >= len(ratings) else end,
            at=at,
            as_of=seq,
        )
        return json_response(request, body, seq)

    return router


def add_name(
    rating: models.RatedParticipant, names: Mapping[str, str | None]
) -> models.RatedParticipant:
    """Return a rating with the name of its participant."""
    return replace(rating, participant=names.get(rating.participant_id))


class PastRatings:
    """Ratings at past instants."""

    def __init__(self, reads: Reads, folds: PastFolds) -> None:
        self._reads = reads
        self._folds = folds

    async def read(self, at: datetime) -> tuple[int, list[models.RatedParticipant]]:
        """The last sequence at an instant, and the rating then.

        It tells nothing of what is hidden now, as leaderboards of the past do not.
        Raises Refused or Failed.
        """
        state = RatingFold()
        seq = await self._folds.fold(lambda archive: archive.read_rating(at), state.fold)
        hidden = await read_hidden_problems(self._reads, now())
        return seq, await asyncio.to_thread(state.rate, at, hidden)
