"""`/moderate audit`: which events explain a submission, or a leaderboard."""

from typing import Any

from discord import app_commands

from discord_edge.bot.asking import Here
from discord_edge.bot.staff import LOOKED, Named, Number, acted, any_board, begun, told
from discord_edge.domain import evidence
from discord_edge.service.ports import User
from shared.errors import Refused

MAY = ("moderator", "admin")
# A page looks back over a stretch of the log, so a leaderboard's own acts may be far apart.
PAGES_MAX, PAGE = 20, 200
ACTS_MAX = 200


@app_commands.command(name="audit", description="Which events explain a submission or leaderboard")
@app_commands.describe(
    submission="Its whole history, and why it stands where it stands",
    leaderboard_name="What operators did to a leaderboard",
)
@app_commands.autocomplete(leaderboard_name=any_board)
async def audit(
    here: Here, submission: Number | None = None, leaderboard_name: Named | None = None
) -> None:
    """What the log says, event by event, with who and why."""
    user = await begun(here, *MAY)
    if (submission is None) == (leaderboard_name is None):
        what = "say one of `submission` and `leaderboard_name`"
        raise Refused("invalid_request", what, "submission")
    if submission is not None:
        await acted(here, user, f"submission {submission}", LOOKED)
        found = await here.client.api.get(user, "submissions", submission)
        lines = [evidence.row(found), *map(evidence.happened, found["timeline"])]
        await told(here, lines, "")
        return
    slug = str(leaderboard_name).strip().lower()
    await here.client.api.get(user, "problems", slug)
    await acted(here, user, slug, LOOKED)
    acts = await _acts(here, user, slug)
    nothing = f"No operator did anything to `{slug}` in what was looked through of the log."
    await told(here, [evidence.act(one) for one in acts], nothing)


async def _acts(here: Here, user: User, slug: str) -> list[dict[str, Any]]:
    """What operators did to a leaderboard, newest first. Errors: Refused; Failed."""
    found: list[dict[str, Any]] = []
    query: dict[str, str | int] = {"limit": PAGE}
    for _ in range(PAGES_MAX):
        page = await here.client.api.get(user, "admin", "audit", **query)
        found += [
            one for one in page["items"] if one["about"] == f"problem.{slug}" or _is_of(one, slug)
        ]
        if page["next_before"] is None or len(found) >= ACTS_MAX:
            break
        query["before"] = int(page["next_before"])
    return found[:ACTS_MAX]


def _is_of(one: dict[str, Any], slug: str) -> bool:
    """Whether an act that is about something else names the leaderboard."""
    data = one["data"]
    is_quota = str(data.get("bucket", "")).startswith(f"{slug}.")
    return is_quota or data.get("target") == slug or slug in (data.get("problems") or ())


COMMANDS: tuple[app_commands.Command[Any, ..., Any], ...] = (audit,)
