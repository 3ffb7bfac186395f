"""A contest on a platform with users on Discord."""

import json
from datetime import datetime, timedelta
from typing import Any

import httpx

from tests.discord.channel_users import ChannelUser, message_text
from tests.discord.platform import EdgePlatform
from tests.support.contests import SLUG, TERMS, contest_fields

PROBLEM, CONTEST = "cupped", {"contest": SLUG}
ACCEPT = "Accept the terms and register"


async def send_contest(edge_platform: EdgePlatform, fields: dict[str, Any], **changes: Any) -> None:
    """Publish or update a contest as an operator."""
    body = {
        "contest_yml": json.dumps(fields),
        "files": {"terms.md": TERMS.decode()},
        "reason": "a day longer",
        **changes,
    }
    headers = {**edge_platform.running.operator, "Warpboard-Operator": "olga"}
    async with httpx.AsyncClient(base_url=edge_platform.running.url, timeout=30) as http:
        answer = await http.post("/v1/contests", json=body, headers=headers)
    assert answer.status_code == 201, answer.text


def cup(main_at: datetime, ends_at: datetime, organiser: str = "olga") -> dict[str, Any]:
    """Return a contest whose registration is open until the round ends."""
    instants = {"until": ends_at.isoformat()}
    phases = [
        {"kind": "registration", "starts": (main_at - timedelta(hours=1)).isoformat()},
        {"kind": "main", "starts": main_at.isoformat(), "modes": ["test", "ranked"]},
        {"kind": "review", "starts": ends_at.isoformat()},
    ]
    return contest_fields(
        main_at,
        organisers=[organiser],
        phases=phases,
        divisions=[
            {"slug": "assisted", "title": "Assisted", "declare": ["model"]},
            {"slug": "hand", "title": "By hand"},
            {"slug": "panel", "title": "Panel", "declare": [f"tool-{count}" for count in range(6)]},
        ],
        problems=[{"slug": PROBLEM, "gpu": "CPU"}],
        teams={"size_max": 2, "changes_until": instants["until"]},
        register_until=instants["until"],
    )


async def accept_terms(user: ChannelUser, message: Any, model: str) -> str:
    """Accept the terms in a message, and declare a model if there is one; return the answer."""
    doing = await user.person.click(message, ACCEPT)
    if model:
        await doing.acknowledged()
        doing = await user.person.fill_in(doing, {"model": model})
    return message_text(await doing.answered())
