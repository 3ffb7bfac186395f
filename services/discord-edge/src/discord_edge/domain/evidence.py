"""What the log says of a submission or a leaderboard, in lines."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from discord_edge.domain.wording import escaped

Said = Mapping[str, Any]
SHOWN = ("rule", "visibility", "deadline_at", "gpus", "bucket", "limit", "code", "is_accepted")


def when(at: str) -> str:
    """An instant on the reader's own clock.

    >>> when("1970-01-01T00:01:40Z"), when("once")
    ('<t:100:f>', 'once')
    """
    try:
        return f"<t:{int(datetime.fromisoformat(at).timestamp())}:f>"
    except ValueError:
        return escaped(at, 40)


def happened(one: Said) -> str:
    """An event in the life of a submission.

    >>> happened({"seq": 7, "type": "JobQueued", "at": "x", "note": "", "actor": "system:ingest"})
    'event 7 · x · JobQueued · by system:ingest'
    """
    note = f" · {escaped(str(one['note']))}" if one["note"] else ""
    return f"{_head(one)}{note}"


def act(one: Said) -> str:
    """What an operator did, and why.

    >>> act({"seq": 9, "type": "LeaderboardChanged", "at": "x", "actor": "operator:ada",
    ...     "reason": "late", "data": {"visibility": "closed", "force": True}})
    'event 9 · x · LeaderboardChanged · by operator:ada · late (visibility closed)'
    """
    data = one["data"]
    said = ", ".join(f"{name} {data[name]}" for name in SHOWN if data.get(name) not in (None, ""))
    more = f" ({escaped(said)})" if said else ""
    why = escaped(str(one["reason"] or "no reason"))
    return f"{_head(one)} · {why}{more}"


def row(found: Said) -> str:
    """Why a submission stands where it stands, or why it does not.

    >>> row({"number": 7, "problem": "copy", "gpu": "H100", "state": "finished", "ranking": None})
    '**#7** copy · H100 · finished · on no leaderboard'
    """
    head = f"**#{found['number']}** {escaped(str(found['problem']))} · {escaped(str(found['gpu']))}"
    head = f"{head} · {found['state']}"
    ranking = found["ranking"]
    if not ranking:
        return f"{head} · on no leaderboard"
    if ranking.get("rank"):
        return f"{head} · rank {ranking['rank']}"
    why = ranking.get("reason") or ranking.get("code") or "no reason is kept"
    return f"{head} · not ranked: {escaped(str(why))}"


def _head(one: Said) -> str:
    who = escaped(str(one["actor"] or "nobody who is named"), 80)
    return f"event {one['seq']} · {when(str(one['at']))} · {one['type']} · by {who}"
