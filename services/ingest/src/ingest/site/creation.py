"""The pages on which creators send a reference, follow its check, and publish it."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote, urlencode

from fastapi import APIRouter, FastAPI, Path, Request, Response
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from ingest.http.cookies import SESSION_COOKIE
from ingest.http.middleware import SUBMISSION_BYTES_MAX
from ingest.http.requests import ID
from ingest.identity.login.service import Session
from ingest.identity.login.web import FORM_FIELDS_MAX, SCRIPT_POLICY, Web
from ingest.ports import ReadProxy
from ingest.site.admin.acts import WORDS, SessionApi, check_any_scope, may_any
from ingest.site.reads import (
    PageReads,
    api_path,
    decode_response,
    find_visitor,
    read_if_possible,
    read_in_time,
)
from shared.api.agents import Agents
from shared.api.problems import FullProblem, ProblemCheck, PublishedVersion
from shared.checks.problem_files import add_statement
from shared.errors import Failed, Refused
from shared.problems.competition import parse_deadline
from shared.problems.single_file import SUFFIXES

PATH = "/create"
SCOPES = ("author", "admin:problems")
VISIBILITIES = {"public": "everybody", "closed": "only who has an invite"}
# How often the script reads the page of a check again; without scripts, the browser does.
REFRESH_S, RELOAD_S = 2, 5
SHOWN_S_MAX, POLL_S = 3.0, 0.1

GPU_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}\Z")

CheckInPath = Annotated[str, Path(pattern=ID)]


class CreationForm(NamedTuple):
    """What the form contains; the file has to be chosen again after an error."""

    name: str = ""
    description: str = ""
    deadline: str = ""
    visibility: str = "public"
    gpus: Sequence[str] = ()
    more_gpus: str = ""
    csrf: str = ""
    file_name: str = ""
    file: bytes = b""

    @property
    def all_gpus(self) -> list[str]:
        """The GPU types that are chosen or typed."""
        typed = [word for word in WORDS.split(self.more_gpus) if word]
        return list(dict.fromkeys([*self.gpus, *typed]))

    @property
    def files(self) -> Mapping[str, bytes]:
        """The files of the problem. Raises `Refused`."""
        if not self.file:
            raise Refused("bad_file", "reference: choose a file that is not empty", "file")
        if not self.file_name.endswith(SUFFIXES):
            message = f"reference: {self.file_name[:60]!r} is not one of {', '.join(SUFFIXES)}"
            raise Refused("bad_file", message, "file")
        files = {self.file_name: self.file}
        return add_statement(files, self.description) if self.description else files

    def check(self) -> None:
        """Refuse what the check does not need to find out. Raises `Refused`."""
        if not self.all_gpus:
            message = "GPU types: choose at least one, or write one that has no agent yet"
            raise Refused("invalid_request", message, "gpu")
        for gpu in self.all_gpus:
            if not GPU_NAME.match(gpu):
                message = f"GPU types: {gpu[:40]!r} is not one: letters, digits, - and _"
                raise Refused("invalid_request", message, "gpu")
        if self.deadline and parse_deadline(f"{self.deadline}Z") is None:
            message = f"deadline: {self.deadline[:40]!r} is not a date and time in UTC"
            raise Refused("invalid_request", message, "deadline")

    @property
    def settings(self) -> dict[str, str]:
        """The settings that the page of the check keeps until it publishes."""
        return {"deadline": self.deadline, "visibility": self.visibility}


async def _read_form(request: Request) -> CreationForm:
    """Read the form. Raises `Refused` if it cannot be read."""
    limits = {"max_files": 1, "max_fields": FORM_FIELDS_MAX}
    try:
        async with request.form(**limits, max_part_size=SUBMISSION_BYTES_MAX) as fields:
            return await _parse_form(fields)
    except HTTPException as error:
        message = f"this form cannot be read: {error.detail}"
        raise Refused("invalid_request", message) from error


async def _parse_form(fields: FormData) -> CreationForm:
    texts = {name: value.strip() for name, value in fields.items() if isinstance(value, str)}
    upload = fields.get("file")
    is_chosen = isinstance(upload, UploadFile) and upload.filename
    return CreationForm(
        name=texts.get("name", "").lower(),
        description=texts.get("description", "").replace("\r\n", "\n"),
        deadline=texts.get("deadline", ""),
        visibility=texts.get("visibility", ""),
        gpus=[gpu for gpu in fields.getlist("gpu") if isinstance(gpu, str)],
        more_gpus=texts.get("more_gpus", ""),
        csrf=texts.get("csrf", ""),
        file_name=(upload.filename or "") if isinstance(upload, UploadFile) else "",
        file=await upload.read() if is_chosen and isinstance(upload, UploadFile) else b"",
    )


@dataclass(frozen=True)
class CreationPages:
    """Renders the pages, which call the API's own routes as their visitor."""

    app: FastAPI
    web: Web
    ranker: ReadProxy

    async def open(self, request: Request, path: str) -> tuple[Session, SessionApi]:
        """Return a creator's session and the API as they may use it.

        Raises `NotLoggedIn`, `Refused` and `Failed`.
        """
        session = await self.web.require_session(request, path)
        if session.caller.ban is None and not may_any(session.caller, SCOPES):
            message = "only creators make leaderboards: ask an admin for the role creator"
            raise Refused("scope_missing", message)
        check_any_scope(session.caller, SCOPES)
        cookie = self.web.cookies.name(SESSION_COOKIE)
        return session, SessionApi(self.app, session.secret, cookie)

    async def show_form(
        self,
        request: Request,
        session: Session,
        form: CreationForm | None = None,
        error: Refused | Failed | None = None,
    ) -> Response:
        """Return the form; a new one has the GPU types with agents."""
        visitor = await find_visitor(request, self.web, self.ranker)
        agents = await read_if_possible(visitor.reads.read(api_path("agents"), Agents))
        served = agents.gpus_with_agents() if agents else []
        query = request.query_params
        if form is None:
            named = query.getlist("gpu")
            form = CreationForm(
                name=query.get("name", ""),
                deadline=query.get("deadline", ""),
                visibility=query.get("visibility", "public"),
                gpus=[gpu for gpu in served if gpu in named] if named else served,
                more_gpus=" ".join(gpu for gpu in named if gpu not in served),
            )
        values: dict[str, Any] = {
            "form": form,
            "served": served,
            "suffixes": ",".join(SUFFIXES),
            "visibilities": VISIBILITIES,
            "error_field": error.field if isinstance(error, Refused) else None,
        }
        return self.web.page(request, "create.html", session, error, **values)

    async def send(self, request: Request, session: Session, api: SessionApi) -> Response:
        """Ask for the check of a form, and redirect to its page; if refused, show the reason."""
        form = await _read_form(request)
        try:
            self._check_sender(request, session, form)
            form.check()
            fields = {"slug": form.name, "gpu": form.all_gpus}
            answer = await api.send_form("/v1/checks", fields, form.files)
        except Refused as refused:
            if refused.code == "bad_problem":
                field = "slug" if refused.field == "slug" else "file"
                label = "name" if field == "slug" else "reference"
                refused = Refused(refused.code, f"{label}: {refused.reason}", field)
            return await self.show_form(request, session, form, refused)
        except Failed as failed:
            return await self.show_form(request, session, form, failed)
        check = decode_response("/v1/checks", answer, ProblemCheck)
        return self.web.redirect(f"{PATH}/{quote(check.id)}?{urlencode(form.settings)}")

    def _check_sender(self, request: Request, session: Session, form: CreationForm) -> None:
        if not self.web.is_own_form(request, session, form.csrf):
            raise Refused("bad_csrf", "this page was out of date: send it again")

    async def show_check(
        self,
        request: Request,
        session: Session,
        check: ProblemCheck,
        settings: Mapping[str, str],
        error: Refused | Failed | None = None,
    ) -> Response:
        """Return the page of a check, which follows it, and publishes the problem."""
        again = [*settings.items(), ("name", check.slug), *(("gpu", gpu) for gpu in check.gpus)]
        values: dict[str, Any] = {
            "check": check,
            "deadline": settings.get("deadline", ""),
            "visibility": settings.get("visibility", "public"),
            "visibilities": VISIBILITIES,
            "untested": [gpu for gpu in check.gpus if gpu not in check.tested_gpus],
            "again": f"{PATH}?{urlencode(again)}",
            "refresh_s": REFRESH_S,
            "reload_s": RELOAD_S,
        }
        response = self.web.page(request, "create_check.html", session, error, **values)
        response.headers["Content-Security-Policy"] = SCRIPT_POLICY
        return response


async def _publish(api: SessionApi, check: ProblemCheck, settings: Mapping[str, str]) -> str:
    """Publish what was checked, and return what to say. Raises `Refused` and `Failed`."""
    deadline = settings.get("deadline", "")
    body = {
        "deadline": f"{deadline}Z" if deadline else None,
        "visibility": settings.get("visibility") or None,
        "allow_untested": bool(settings.get("allow_untested")),
    }
    path = api_path("checks", check.id, "publish")
    published = decode_response(path, await api.send("POST", path, body), PublishedVersion)
    state = "is published" if published.is_new else "is published already"
    return " ".join([f"Version {published.problem_version} {state}.", *published.warnings])


async def _wait_until_shown(reads: PageReads, check: ProblemCheck) -> None:
    """Wait until the problem's page shows the version, which takes milliseconds."""
    path = api_path("problems", check.slug)
    with suppress(TimeoutError):
        async with asyncio.timeout(SHOWN_S_MAX):
            while True:
                problem = await read_if_possible(reads.read(path, FullProblem))
                if problem is not None and problem.digest == check.digest:
                    return
                await asyncio.sleep(POLL_S)


def add_creation_pages(app: FastAPI, router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    """Add the form of a new problem, and the page of its check."""
    pages = CreationPages(app, web, ranker)
    check_path = f"{PATH}/{{check}}"

    async def read_check(api: SessionApi, id_: str) -> ProblemCheck:
        return await read_in_time(api.get(api_path("checks", id_), ProblemCheck))

    @router.get(PATH)
    async def ask(request: Request) -> Response:
        """The form of a new problem."""
        session, _ = await pages.open(request, PATH)
        return await pages.show_form(request, session)

    @router.post(PATH)
    async def send(request: Request) -> Response:
        """Ask for the check of a reference."""
        session, api = await pages.open(request, PATH)
        return await pages.send(request, session, api)

    @router.get(check_path)
    async def follow(request: Request, check: CheckInPath) -> Response:
        """How far a check is, what it found, and the form that publishes the problem."""
        session, api = await pages.open(request, f"{PATH}/{check}")
        problem_check = await read_check(api, check)
        return await pages.show_check(request, session, problem_check, request.query_params)

    @router.post(check_path)
    async def publish(request: Request, check: CheckInPath) -> Response:
        """Publish what was checked, and show the problem."""
        session, api = await pages.open(request, f"{PATH}/{check}")
        form = await web.form(request, session)
        names = ("deadline", "visibility", "allow_untested")
        settings = {name: form.text(name) for name in names}
        problem_check = await read_check(api, check)
        try:
            notice = await _publish(api, problem_check, settings)
        except (Refused, Failed) as error:
            return await pages.show_check(request, session, problem_check, settings, error)
        visitor = await find_visitor(request, web, ranker)
        await _wait_until_shown(visitor.reads, problem_check)
        return web.redirect(f"/problems/{quote(problem_check.slug)}", notice)
