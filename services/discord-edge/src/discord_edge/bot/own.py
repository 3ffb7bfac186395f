"""One's own submissions, of which others hear nothing."""

from typing import Any

from discord_edge.bot.asking import Here, user_of
from discord_edge.bot.paging import NOBODY
from shared.errors import Refused


async def mine(here: Here, number: int) -> dict[str, Any]:
    """A submission of one's own; others' are in the same words as what never was."""
    user = user_of(here)
    unknown = Refused("unknown_submission", f"you have no submission {number}")
    try:
        me = await here.client.api.get(user, "me")
        found = await here.client.api.get(user, "submissions", number)
    except Refused as refused:
        if refused.code in (NOBODY, "unknown_submission", "not_found", "no_access"):
            raise unknown from refused
        raise
    if found.get("account") != me["participant_id"]:
        raise unknown
    return found
