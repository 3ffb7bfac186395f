"""Tools about contests: list them, read one with its standing, and register."""

from typing import Annotated

import msgspec
from msgspec import structs
from pydantic import Field

from shared.api.contest_standings import ContestResults, ContestStanding
from shared.api.contests import ContestDetails, Contests
from shared.api.queues import DecisionResponse
from warpboard.mcp.context import FILE_CHARS_MAX, ToolContext, ToolResult, head

ROWS_MAX = 20
DECLARATIONS_MAX = 16
Contest = Annotated[str, Field(min_length=1, max_length=64, description="The contest's slug.")]


class ContestPage(msgspec.Struct, frozen=True, kw_only=True):
    """A contest, the beginning of its standing, and its results with finalists and places."""

    details: ContestDetails
    standing: ContestStanding | None
    results: ContestResults


async def list_contests(context: ToolContext) -> ToolResult:
    """List the contests with their current and next phases, and their problems."""
    return ToolResult((await context.api.get(Contests, "contests")).value)


async def read_contest(context: ToolContext, contest: Contest) -> ToolResult:
    """Read a contest: phases with what they accept, problems with their windows and points,
    divisions, teams, terms, your own registration, the first places of the standing, and the
    results: whether they are provisional or final, and whether other agents confirmed the winners.
    """
    details = (await context.api.get(ContestDetails, "contests", contest)).value
    path = ("contests", contest, "standing")
    standing = (await context.api.get(ContestStanding, *path)).value
    results = (await context.api.get(ContestResults, "contests", contest, "results")).value
    terms, note = head(details.contest.terms, FILE_CHARS_MAX)
    cut = [f"terms: {note}"] if note else []
    cut += [
        f"standing of {division.division}: {len(division.rows) - ROWS_MAX} more"
        for division in standing.divisions
        if len(division.rows) > ROWS_MAX
    ]
    if len(results.places) > ROWS_MAX:
        cut.append(f"results: {len(results.places) - ROWS_MAX} more")
    divisions = [
        structs.replace(division, rows=division.rows[:ROWS_MAX]) for division in standing.divisions
    ]
    page = ContestPage(
        details=structs.replace(details, contest=structs.replace(details.contest, terms=terms)),
        standing=structs.replace(standing, divisions=divisions),
        results=structs.replace(results, places=results.places[:ROWS_MAX]),
    )
    return ToolResult(page, cut=cut)


async def register_for_contest(
    context: ToolContext,
    contest: Contest,
    *,
    division: Annotated[
        str, Field(min_length=1, max_length=64, description="A division of read_contest.")
    ],
    terms_digest: Annotated[
        str, Field(pattern="^[0-9a-f]{64}$", description="terms_digest of read_contest.")
    ],
    declaration: Annotated[
        dict[str, str] | None,
        Field(
            max_length=DECLARATIONS_MAX,
            description="What the division asks to declare, such as the model.",
        ),
    ] = None,
    code: Annotated[
        str, Field(max_length=128, description="The code of an invite, if the contest needs one.")
    ] = "",
) -> ToolResult:
    """Register your user for a contest, which accepts its terms. Only after you showed the terms to
    your user, and they told you to accept them.
    """
    body: dict[str, object] = {
        "division": division,
        "terms_digest": terms_digest,
        "declaration": declaration or {},
        "code": code,
    }
    path = ("contests", contest, "registration")
    return ToolResult((await context.api.act(DecisionResponse, "POST", *path, body=body)).value)
