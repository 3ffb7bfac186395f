"""A contest of the problem copy, as its file has it, with times that follow from one instant."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ingest.contests.service import ContestUpload

TERMS = b"Be fair.\n"
SLUG = "winter-cup"


def contest_fields(start_at: datetime, **changes: object) -> dict[str, Any]:
    """Return a contest with a phase each hour: registration, practice, main, freeze, and so on.

    Teams of two may change until the main round begins; the archive is open for practice.
    """

    def hour(count: float) -> str:
        return (start_at + timedelta(hours=count)).isoformat()

    modes, both = ["test"], ["test", "ranked"]
    return {
        "slug": SLUG,
        "title": "Winter cup",
        "terms": "terms.md",
        "organisers": ["olga"],
        "teams": {"size_max": 2, "changes_until": hour(2)},
        "register_until": hour(3),
        "divisions": [
            {"slug": "assisted", "title": "Assisted", "declare": ["model"]},
            {"slug": "hand", "title": "By hand"},
        ],
        "phases": [
            {"kind": "registration", "starts": hour(0)},
            {"kind": "practice", "starts": hour(1), "modes": modes},
            {"kind": "main", "starts": hour(2), "modes": both, "quotas": {"ranked": 2}},
            {"kind": "freeze", "starts": hour(3), "modes": both, "ranks": "frozen"},
            {"kind": "review", "starts": hour(4)},
            {"kind": "archive", "starts": hour(5), "modes": both, "sources": "public"},
        ],
        "problems": [{"slug": "copy", "gpu": "CPU"}],
        **changes,
    }


def contest_upload(fields: Mapping[str, Any], **changes: Any) -> ContestUpload:
    """Return the request that publishes these fields."""
    upload = ContestUpload(
        contest_yml=json.dumps(fields).encode(),
        files={"terms.md": TERMS},
        is_update=False,
        is_dry_run=False,
        reason="r",
    )
    return upload._replace(**changes)
