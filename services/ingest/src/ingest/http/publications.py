"""The form by which a problem is published: its files, its check, all settings of a leaderboard."""

from datetime import datetime
from typing import Annotated, Literal, NamedTuple

from fastapi import Depends, Form, Request
from pydantic import Field

from ingest.domain.problems import Change
from ingest.http.bodies import Text
from ingest.service.authors import Check
from shared.errors import Refused
from shared.problems.contest import deadline, is_zoneless
from shared.problems.release import Published, Visible
from shared.problems.settings import Settings
from shared.problems.task_yml import GpuName

FIELDS = frozenset(
    (
        *("files", "slug", "report", "unchecked", "visibility", "deadline", "gpu", "quota"),
        *("force", "title", "ranking_by", "source_visible", "publish", "consent"),
        *("licence_problem", "licence_submissions"),
    )
)
NEVER = "none"
GPUS_MAX, QUOTAS_MAX = 32, 32
WHY = "published so"

Gpus = Annotated[list[GpuName], Field(max_length=GPUS_MAX)]
Texts = Annotated[list[str], Field(max_length=QUOTAS_MAX)]
Line = Annotated[str, Field(min_length=1, max_length=200)]


class Accepted(NamedTuple):
    """What is accepted by who submits, and under which licences all is passed on."""

    licence: dict[str, str] | None
    consent: bytes | None


class Wanted(NamedTuple):
    """All that is said of a problem beside its files."""

    slug: str
    check: Check
    settings: Settings
    change: Change
    quotas: list[str]
    warnings: list[str]


class Board(NamedTuple):
    """What is said of its leaderboards."""

    change: Change
    quotas: list[str]
    warnings: list[str]


async def _accepted(
    licence_problem: Annotated[Line | None, Form()] = None,
    licence_submissions: Annotated[Line | None, Form()] = None,
    consent: Annotated[str | None, Form(min_length=1)] = None,
) -> Accepted:
    said = {"problem": licence_problem, "submissions": licence_submissions}
    licence = {name: value for name, value in said.items() if value is not None}
    return Accepted(licence or None, None if consent is None else consent.encode())


async def _settings(
    accepted: Annotated[Accepted, Depends(_accepted)],
    title: Annotated[Line | None, Form()] = None,
    ranking_by: Annotated[Literal["last", "mean", "geom"] | None, Form()] = None,
    source_visible: Annotated[Visible | None, Form()] = None,
    publish: Annotated[Published | None, Form()] = None,
) -> Settings:
    return Settings(title, ranking_by, source_visible, publish, accepted.licence, accepted.consent)


async def _board(
    visibility: Annotated[Literal["public", "closed"] | None, Form()] = None,
    ends: Annotated[str | None, Form(alias="deadline", max_length=40)] = None,
    gpu: Annotated[Gpus | None, Form()] = None,
    quota: Annotated[Texts | None, Form()] = None,
    force: Annotated[bool, Form()] = False,
) -> Board:
    ends_at, warnings = read_deadline(ends) if ends else (None, [])
    change = Change(
        WHY,
        visibility,
        has_deadline=None if not ends else ends_at is not None,
        deadline_at=ends_at,
        gpus=tuple(gpu) if gpu else None,
        is_forced=force,
    )
    return Board(change, quota or [], warnings)


async def _check(
    report: Annotated[str | None, Form(min_length=1)] = None,
    unchecked: Annotated[Text | None, Form()] = None,
) -> Check:
    if report is not None and unchecked is not None:
        what = "say one of report and unchecked: a problem was checked, or it was not"
        raise Refused("invalid_request", what, "unchecked")
    return Check(None if report is None else report.encode(), unchecked or "")


async def wanted(
    request: Request,
    slug: Annotated[str, Form(min_length=1)],
    check: Annotated[Check, Depends(_check)],
    settings: Annotated[Settings, Depends(_settings)],
    board: Annotated[Board, Depends(_board)],
) -> Wanted:
    """What a form says. Errors: Refused for a field that is none."""
    strange = sorted(set(await request.form()) - FIELDS)
    if strange:
        what = f"{strange[0]} is no field here: {', '.join(sorted(FIELDS))} are"
        raise Refused("invalid_request", what, strange[0])
    return Wanted(slug, check, settings, board.change, board.quotas, board.warnings)


def read_deadline(text: str) -> tuple[datetime | None, list[str]]:
    """The instant that a text says, None for the word `none`, and what to know of it.

    Errors: Refused.

    >>> read_deadline("2026-12-01 18:00")[1]
    ['the deadline 2026-12-01 18:00 names no zone: it is 2026-12-01T18:00:00+00:00']
    """
    if text == NEVER:
        return None, []
    found = deadline(text)
    if found is None:
        what = f"{text!r} is no deadline: write 2026-12-01T18:00:00Z, or 2026-12-01 18:00 in UTC"
        raise Refused("invalid_request", f"{what}; {NEVER} is no deadline at all", "deadline")
    if not is_zoneless(text):
        return found, []
    return found, [f"the deadline {text} names no zone: it is {found.isoformat()}"]
