"""The routes of checks: request one, follow it, and publish what was checked."""

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from msgspec import structs
from pydantic import Field

from ingest.checks.service import Checks
from ingest.http.requests import Id, RequestModel
from ingest.identity.caller import Caller
from ingest.identity.http.authenticator import Authenticator
from ingest.problems.commands import Change, Publication
from ingest.problems.routes import (
    FILES_MAX,
    WHY,
    Filled,
    Gpus,
    SettingsForm,
    read_deadline,
)
from shared.api.fields import Visibility
from shared.api.problems import ProblemCheck, PublishedVersion
from shared.errors import Refused
from shared.http import DocumentedRoute

OPERATOR = "operator"


class CheckForm(SettingsForm):
    """The files of a problem to check: one reference, or a directory with task.yml."""

    slug: Filled
    gpu: Gpus | None = None
    check_on: Annotated[str | None, Field(max_length=40)] = None


class CheckedPublication(RequestModel):
    """How to publish what was checked."""

    deadline: Annotated[str | None, Field(max_length=40)] = None
    visibility: Visibility | None = None
    force: bool = False
    allow_untested: bool = False


def owner(caller: Caller) -> str:
    """Return whose checks a caller has; those with the operator's token share theirs."""
    return caller.account or OPERATOR


def checks_router(checks: Checks, auth: Authenticator) -> APIRouter:
    """The routes of authors."""
    router = APIRouter(prefix="/v1/checks", route_class=DocumentedRoute)
    require_author = auth.author_or_operator()

    @router.post("", status_code=202)
    async def request_check(
        form: Annotated[CheckForm, Form(media_type="multipart/form-data")], request: Request
    ) -> ProblemCheck:
        """Check a problem on an agent, before it is published.

        Send one reference (.py, .cu, .cuh, .cpp) or the files of a directory with task.yml and its
        `solutions`. A reference alone is its own first correct solution. `gpu` are the GPU types of
        the leaderboards, `check_on` the one of them to check on, by default a GPU with agents. An
        author may have two checks that are not over.
        """
        caller = await auth.author(request, form.slug)
        if len(form.files) > FILES_MAX:
            raise Refused("bad_problem", f"a problem has at most {FILES_MAX} files", "files")
        publication = Publication(
            slug=form.slug,
            files={file.filename or "": await file.read() for file in form.files},
            settings=form.settings(),
            change=Change(WHY, gpus=tuple(form.gpu) if form.gpu else None),
        )
        return await checks.request(publication, form.check_on, owner(caller), caller.actor)

    @router.get("/{check}")
    async def read_check(
        check: Id, caller: Annotated[Caller, Depends(require_author)]
    ) -> ProblemCheck:
        """How far a check is, and what it found; for the author who asked for it."""
        return await checks.find(check, owner(caller))

    @router.post("/{check}/publish", status_code=201)
    async def publish_checked(
        check: Id,
        body: CheckedPublication,
        request: Request,
        caller: Annotated[Caller, Depends(require_author)],
    ) -> PublishedVersion:
        """Publish the files of a check that found no error, with the report its agent signed."""
        problem_check = await checks.find(check, owner(caller))
        # Another author may have published a problem of this name meanwhile.
        caller = await auth.author(request, problem_check.slug)
        ends_at, warnings = read_deadline(body.deadline) if body.deadline else (None, [])
        publication = Publication(
            slug=problem_check.slug,
            files={},
            change=Change(
                WHY,
                body.visibility,
                has_deadline=None if body.deadline is None else ends_at is not None,
                deadline_at=ends_at,
                is_forced=body.force,
                allows_untested=body.allow_untested,
            ),
            is_operator=caller.may("admin:problems"),
        )
        published = await checks.publish(check, owner(caller), publication, caller.actor)
        return structs.replace(published, warnings=[*published.warnings, *warnings])

    return router
