"""Bans of participants: which one is in force, and how it is described."""

from datetime import datetime

from shared import events
from shared.errors import Refused


def ban_at(ban: events.AccountBanned | None, at: datetime) -> events.AccountBanned | None:
    """Return the ban if it is in force at a time, else None."""
    return ban if ban and (ban.until_at is None or at < ban.until_at) else None


def check_ban(banned: events.AccountBanned | None, at: datetime) -> None:
    """Refuse a banned participant, with the reason and the end of the ban."""
    if ban := ban_at(banned, at):
        wait_s = None if ban.until_at is None else (ban.until_at - at).total_seconds()
        raise Refused(
            "user_banned",
            f"you may not submit, {format_ban_end(ban)}: {ban.reason}",
            retry_after_s=wait_s,
        )


def format_ban_end(ban: events.AccountBanned) -> str:
    """Return how long a ban lasts, in words.

    >>> format_ban_end(events.AccountBanned(reason="copied"))
    'for ever'
    """
    return "for ever" if ban.until_at is None else f"until {ban.until_at.isoformat()}"
