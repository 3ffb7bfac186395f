"""The route that publishes problems: the form with files, check report and settings."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response, UploadFile
from msgspec import structs
from pydantic import Field

from harness.ranking_rules import RankingRule
from ingest.http.requests import FormModel, Text
from ingest.identity.caller import check_scope
from ingest.identity.http.authenticator import Authenticator
from ingest.problems.commands import Change, Check, Publication
from ingest.problems.service import Problems
from ingest.quotas.rules import QUOTAS_MAX, parse_quota
from shared.api.fields import PRINTABLE, PublishWhen, SourceVisible, Visibility
from shared.api.problems import PublishedVersion
from shared.errors import Refused
from shared.http import DocumentedRoute
from shared.problems.competition import is_zoneless, parse_deadline
from shared.problems.task_yml import GPUS_MAX, GpuName
from shared.problems.warpboard_yml import PublishSettings

FILES_MAX = 256
SAME: dict[int | str, dict[str, Any]] = {200: {"description": "This version already exists."}}
NEVER = "none"
WHY = "published so"
Gpus = Annotated[list[GpuName], Field(max_length=GPUS_MAX)]
Texts = Annotated[list[str], Field(max_length=QUOTAS_MAX)]
Filled = Annotated[str, Field(min_length=1)]
Line = Annotated[str, Field(min_length=1, max_length=200, pattern=f"^{PRINTABLE}+$")]


class SettingsForm(FormModel):
    """The files of a problem, and the settings of its version."""

    files: Annotated[list[UploadFile], Field(min_length=1)]
    title: Line | None = None
    ranking_by: RankingRule | None = None
    source_visible: SourceVisible | None = None
    publish: PublishWhen | None = None
    consent: Filled | None = None
    licence_problem: Line | None = None
    licence_submissions: Line | None = None

    def settings(self) -> PublishSettings:
        """Return the settings that replace those of the files."""
        licences = {"problem": self.licence_problem, "submissions": self.licence_submissions}
        licence = {name: value for name, value in licences.items() if value is not None}
        consent = None if self.consent is None else self.consent.encode()
        return PublishSettings(
            self.title, self.ranking_by, self.source_visible, self.publish, licence or None, consent
        )


class PublicationForm(SettingsForm):
    """The files of a problem, its check report and its settings."""

    slug: Filled
    report: Filled | None = None
    unchecked: Text | None = None
    visibility: Visibility | None = None
    deadline: Annotated[str | None, Field(max_length=40)] = None
    gpu: Gpus | None = None
    quota: Texts | None = None
    force: bool = False
    allow_untested: bool = False

    def check(self) -> Check:
        """Return the check. Raises `Refused` for a report together with a reason for none."""
        if self.report is not None and self.unchecked is not None:
            message = "send either report or unchecked, not both"
            raise Refused("invalid_request", message, "unchecked")
        return Check(None if self.report is None else self.report.encode(), self.unchecked or "")

    def change(self, ends_at: datetime | None) -> Change:
        """Return the leaderboard settings; the deadline is already parsed."""
        return Change(
            WHY,
            self.visibility,
            has_deadline=None if self.deadline is None else ends_at is not None,
            deadline_at=ends_at,
            gpus=tuple(self.gpu) if self.gpu else None,
            is_forced=self.force,
            allows_untested=self.allow_untested,
        )


def read_deadline(text: str) -> tuple[datetime | None, list[str]]:
    """Return the deadline in a text, None for the word `none`, with warnings.

    Raises `Refused`.

    >>> read_deadline("2026-12-01 18:00")[1]
    ['the deadline 2026-12-01 18:00 has no time zone: it is taken as 2026-12-01T18:00:00+00:00']
    """
    if text == NEVER:
        return None, []
    deadline_at = parse_deadline(text)
    if deadline_at is None:
        message = (
            f"{text!r} is not a deadline: write 2026-12-01T18:00:00Z, or 2026-12-01 18:00 in UTC"
        )
        raise Refused("invalid_request", f"{message}; {NEVER} removes the deadline", "deadline")
    if not is_zoneless(text):
        return deadline_at, []
    return deadline_at, [
        f"the deadline {text} has no time zone: it is taken as {deadline_at.isoformat()}"
    ]


def problems_router(problems: Problems, auth: Authenticator) -> APIRouter:
    """The route of authors."""
    router = APIRouter(prefix="/v1", route_class=DocumentedRoute)

    @router.post("/problems", status_code=201, responses=SAME)
    async def publish(
        form: Annotated[PublicationForm, Form(media_type="multipart/form-data")],
        response: Response,
        request: Request,
    ) -> PublishedVersion:
        """Publish a task.yml directory as the newest version of a problem.

        A new version needs the `report` of its check; only operators may send the reason in
        `unchecked` instead. If the check ran nothing on any GPU type of the leaderboards, send
        `allow_untested`. A new problem is public unless it is `closed`; you cannot publish a
        problem of another author. Leaderboard settings that are not sent stay as they are.
        """
        author = await auth.author(request, form.slug)
        if len(form.files) > FILES_MAX:
            raise Refused("bad_problem", f"a problem has at most {FILES_MAX} files", "files")
        check = form.check()
        if check.unchecked:
            check_scope(author, "admin:problems")
        ends_at, warnings = read_deadline(form.deadline) if form.deadline else (None, [])
        publication = Publication(
            slug=form.slug,
            files={file.filename or "": await file.read() for file in form.files},
            check=check,
            settings=form.settings(),
            change=form.change(ends_at),
            quotas=tuple(parse_quota(form.slug, quota, WHY) for quota in form.quota or ()),
            is_operator=author.may("admin:problems"),
        )
        published = await problems.publish(publication, author.actor)
        if not published.is_new:
            response.status_code = 200
        return structs.replace(published, warnings=[*published.warnings, *warnings])

    return router
