"""The rating of participants over all problems."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query, Request

from ranker.domain.rating import Rating
from ranker.http.access import CurrentReader, ReadSources
from ranker.http.responses import LIMIT_MAX, json_response
from shared.api import rating as models
from shared.http import DocumentedRoute, TypedResponse

AFTER_MAX = 10_000_000


def rating_router(sources: ReadSources) -> APIRouter:
    """The route of the rating."""
    router = APIRouter(route_class=DocumentedRoute)

    @router.get("/v1/rating")
    async def read_rating(
        request: Request,
        reader: CurrentReader,
        after: Annotated[int, Query(ge=0, le=AFTER_MAX)] = 0,
        limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = 50,
    ) -> TypedResponse[models.Ratings]:
        """Participants by their rating over all problems, the best first.

        It is at most ten seconds old, and the same for every reader. `after` leaves out so many.
        """
        rating_list = await sources.rating.read()
        page = rating_list.ratings[after : after + limit]
        accounts = sorted({rating.account for rating in page})
        rows = await sources.view(reader).rows("participant_names", accounts=accounts)
        names = {row["account"]: row["name"] for row in rows}
        is_last = after + limit >= len(rating_list.ratings)
        body = models.Ratings(
            items=[describe_rating(rating, names) for rating in page],
            total=len(rating_list.ratings),
            next_after=None if is_last else after + limit,
            at=rating_list.at,
            as_of=rating_list.seq,
        )
        return json_response(request, body, rating_list.seq)

    return router


def describe_rating(rating: Rating, names: Mapping[str, str | None]) -> models.RatedParticipant:
    """Return a rating as the API shows it."""
    return models.RatedParticipant(
        participant_id=rating.account,
        participant=names.get(rating.account),
        rating=rating.rating,
        rank=rating.rank,
        is_tied=rating.is_tied,
        problems=[
            models.RatedProblem(
                problem=it.board.problem,
                problem_version=it.board.problem_number,
                gpu=it.board.gpu,
                rank=it.rank,
                entries_count=it.entries_count,
                number=it.number,
                points=it.points,
            )
            for it in rating.problems
        ],
    )
