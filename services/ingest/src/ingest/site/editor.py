"""The editor, which works without scripts, and the forms for one's own submission."""

import asyncio
import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any, NamedTuple, get_args
from urllib.parse import quote, urlencode

from fastapi import APIRouter, FastAPI, Query, Request, Response
from msgspec import structs
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from harness.vocabulary import MODES, SUBMISSION_MODES
from ingest.bootstrap import Ingest
from ingest.http.middleware import IDEMPOTENCY_KEY, SUBMISSION_BYTES_MAX
from ingest.http.requests import APPEAL_LENGTH_MAX, SUBMISSION_NOTE_LENGTH_MAX
from ingest.identity.caller import Caller, check_scope
from ingest.identity.login.service import Session
from ingest.identity.login.web import (
    FORM_FIELDS_MAX,
    SCRIPT_POLICY,
    Form,
    NotLoggedIn,
    Web,
    parse_form,
    route_class,
)
from ingest.identity.secrets import new_secret
from ingest.moderation.service import AppealRequest
from ingest.ports import ReadProxy
from ingest.site.formatting import render_markdown
from ingest.site.reads import (
    PageReads,
    Visitor,
    api_path,
    find_visitor,
    read_if_possible,
    read_in_time,
)
from ingest.site.submissions import NumberInPath, RejectedForm, SubmissionPage, parse_number
from ingest.submissions.admission import NO_AGENT
from ingest.submissions.intake import Intake
from ingest.submissions.resolution import Upload
from ingest.submissions.service import NoteRequest, Submissions
from shared.api.agents import Agents
from shared.api.problems import FullProblem, Start
from shared.api.queues import Queues
from shared.api.submissions import (
    NCU_NAME_BASES,
    REQUESTED_GPUS_MAX,
    FullSubmission,
    SubmissionReceipts,
    SubmissionRequest,
)
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.licences import OwnLicence
from shared.presentation.report_parts import launcher_label, list_launchers
from shared.problems.submission_file import SUFFIXES
from shared.source_files import OTHER_SUFFIXES, SOURCE_FILES_MAX, SourceFile, pack_files

CODE_EDITOR = "built/code-editor.js"
PATH = "/problems/{slug}/submit"
VIA = "web"
NAME_CHARS_MAX = 64

Language = Annotated[str, Query(max_length=NAME_CHARS_MAX)]
Gpus = Annotated[Sequence[str], Query(alias="gpu", max_length=REQUESTED_GPUS_MAX)]
Numbers = Annotated[Sequence[int], Query(alias="submission", max_length=REQUESTED_GPUS_MAX)]
# The scope that each action needs, as in the API.
SCOPES = {"cancel": "submit", "note": "submit", "appeal": "submit", "withdraw": "delete:own"}
# What the page says after an action.
NOTICES: Mapping[str, str] = {
    "cancel": "It will end without a verdict, and its quota will be refunded.",
    "note": "The note is saved.",
    "appeal": "The appeal is filed. A moderator decides it, and the decision appears on this page.",
    "withdraw": "It is withdrawn: it will never be on a leaderboard again.",
}
HINTS = {
    "note": f"note: write at most {SUBMISSION_NOTE_LENGTH_MAX} characters in one line",
    "tag": "tag: write at most 32 characters of a-z, 0-9, _, . and -, first a letter or a digit",
    "text": f"appeal: write 1 to {APPEAL_LENGTH_MAX:,} characters",
}
PROFILE_NUMBERS = ("case", "ncu_launch_count")
COUNT_DIGITS_MAX = 6
# The first one is that of the account.
OFFERED_LICENCES = ("", *get_args(OwnLicence))


class ProfileFields(NamedTuple):
    """What a profile records, as it was typed: one timed case, and which kernels ncu captures."""

    case: str = ""
    ncu_kernel_name: str = ""
    ncu_kernel_name_base: str = ""
    ncu_launch_count: str = ""

    @property
    def request_fields(self) -> dict[str, Any]:
        """Return the fields of the request. Raises `Refused`."""
        numbers = {name: _parse_count(name, getattr(self, name)) for name in PROFILE_NUMBERS}
        return self._asdict() | numbers


def _parse_count(name: str, text: str) -> int:
    if text and not (text.isascii() and text.isdigit() and len(text) <= COUNT_DIGITS_MAX):
        raise Refused("invalid_request", f"{name} must be a number, not {text[:20]!r}", name)
    return int(text or 0)


def _parse_licence(text: str) -> str:
    if text not in OFFERED_LICENCES:
        raise Refused("invalid_request", f"{text[:20]!r} is not a licence", "licence")
    return text


class EditorForm(NamedTuple):
    """What the form contains: the code in the text field, or a chosen file that replaces it.

    `others` are the files beside it.
    `key` makes a form that is sent twice one submission. `is_confirmed` means that it may wait for
    an agent. `runner` is the launcher that starts an agent for it, "" for any agent. `parent` is
    the number of its parent as it was typed. `licence` is that of the source, "" for that of the
    account.
    """

    name: str
    code: str
    mode: str
    gpus: Sequence[str]
    key: str
    csrf: str = ""
    runner: str = ""
    parent: str = ""
    licence: str = ""
    is_confirmed: bool = False
    file: bytes | None = None
    others: Sequence[SourceFile] = ()
    profile: ProfileFields = ProfileFields()

    @property
    def source(self) -> bytes:
        """Return the source to submit."""
        return self.code.encode() if self.file is None else self.file

    @property
    def idempotency_key(self) -> str:
        """Return a key of this form with this content: other content is another submission."""
        runner = [f"runner {self.runner}"] if self.runner else []
        parent = [f"parent {self.parent}"] if self.parent else []
        licence = [f"licence {self.licence}"] if self.licence else []
        profile = [*self.profile] if any(self.profile) else []
        words = [self.key or new_id(), self.mode, self.name, *self.gpus]
        words += [*runner, *parent, *licence, *profile]
        text, files = "\n".join(words), (SourceFile(self.name, self.source), *self.others)
        return hashlib.sha256(text.encode() + b"\0" + pack_files(files)).hexdigest()

    def submission(self, slug: str) -> SubmissionRequest:
        """Return the request of `POST /v1/submissions` that this form makes. Raises `Refused`."""
        return SubmissionRequest(
            self.name,
            self.source,
            slug,
            self.mode,
            tuple(self.gpus),
            runner=self.runner,
            waits_for_agent=self.is_confirmed,
            parent=parse_number(self.parent, "parent") if self.parent else 0,
            licence=_parse_licence(self.licence),
            needs_licence=True,
            others=tuple(self.others),
            **self.profile.request_fields,
        )


class EditorReads(NamedTuple):
    """A problem, and only if possible its launchers, the agents, and the code of the starter."""

    problem: FullProblem
    launchers: Mapping[str, str]
    agents: Agents | None
    start: Start | None
    starter: bytes


async def read_editor(reads: PageReads, slug: str, language: str) -> EditorReads:
    """Read what the editor shows. Raises `Refused` and `Failed`."""
    problem, agents, queues = await asyncio.gather(
        reads.read(api_path("problems", slug), FullProblem),
        read_if_possible(reads.read(api_path("agents"), Agents)),
        read_if_possible(reads.read(api_path("queue"), Queues)),
    )
    pools = [pool for pool in queues.pools if pool.gpu in problem.gpus] if queues else []
    launchers = {it.name: launcher_label(it) for it, _ in list_launchers(pools)}
    starts = [start for start in problem.starts if start.language == language]
    start = next(iter(starts or problem.starts), None)
    starter = await read_if_possible(reads.read_bytes(start.url)) if start else None
    return EditorReads(problem, launchers, agents, start, starter or b"")


async def read_form(request: Request) -> EditorForm:
    """Read the form. Raises `Refused` if it cannot be read."""
    limits = {"max_files": SOURCE_FILES_MAX + 1, "max_fields": FORM_FIELDS_MAX}
    try:
        async with request.form(**limits, max_part_size=SUBMISSION_BYTES_MAX) as fields:
            return await _parse_form(fields)
    except HTTPException as error:
        if error.status_code == 413:
            message = f"the form is too large: {error.detail}; without a login, it may have 16 KiB"
            raise Refused("request_too_large", message) from error
        raise Refused("invalid_request", f"this form cannot be read: {error.detail}") from error


async def _parse_form(fields: FormData) -> EditorForm:
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    # Browsers send the lines of a text field with CRLF.
    name, code = texts.get("filename", ""), texts.get("code", "").replace("\r\n", "\n")
    upload, file = fields.get("file"), None
    if isinstance(upload, UploadFile) and upload.filename:
        name, file = upload.filename, await upload.read()
        with contextlib.suppress(UnicodeDecodeError):
            code = file.decode()
    others = [
        SourceFile(it.filename, await it.read())
        for it in fields.getlist("files")
        if isinstance(it, UploadFile) and it.filename
    ]
    return EditorForm(
        name=name.strip(),
        code=code,
        file=file,
        others=others,
        mode=texts.get("mode", ""),
        gpus=[gpu for gpu in fields.getlist("gpu") if isinstance(gpu, str)],
        key=texts.get("key", ""),
        csrf=texts.get("csrf", ""),
        runner=texts.get("runner", ""),
        parent=texts.get("parent", "").strip(),
        licence=texts.get("licence", ""),
        is_confirmed=bool(texts.get("confirmed")),
        profile=ProfileFields(**{name: texts.get(name, "") for name in ProfileFields._fields}),
    )


def new_form(reads: EditorReads, requested_gpus: Sequence[str]) -> EditorForm:
    """Return a form with the starter and, unless GPU types are requested, the first with an agent.

    A GPU type that the problem does not have is left out.
    """
    problem, agents = reads.problem, reads.agents
    idle = agents.gpus_without_agents(problem.gpus) if agents else []
    gpus = [gpu for gpu in problem.gpus if gpu in requested_gpus]
    gpus = gpus or [gpu for gpu in problem.gpus if gpu not in idle][:1] or problem.gpus[:1]
    name = reads.start.name if reads.start else "kernel.py"
    return EditorForm(
        name, reads.starter.decode("utf-8", "replace"), SUBMISSION_MODES[0], gpus, new_id()
    )


@dataclass(frozen=True)
class Editor:
    """Shows the editor, and submits its form."""

    web: Web
    intake: Intake
    # Whether CodeMirror was built; otherwise the code is in a plain text field.
    has_code_editor: bool

    async def show(
        self,
        request: Request,
        visitor: Visitor,
        reads: EditorReads,
        form: EditorForm,
        error: Refused | Failed | None = None,
        **values: object,
    ) -> Response:
        """Return the page with a form, and an error beside it."""
        problem, agents = reads.problem, reads.agents
        nonce = new_secret()
        defaults: dict[str, object] = {
            "problem": problem,
            "path": PATH.format(slug=quote(problem.slug)),
            "statement": await asyncio.to_thread(render_markdown, problem.statement),
            "form": form,
            "ncu_name_bases": list(NCU_NAME_BASES),
            "modes": {mode: MODES[mode].summary for mode in SUBMISSION_MODES},
            "launchers": reads.launchers,
            "licences": OFFERED_LICENCES,
            "suffixes": ",".join(SUFFIXES.values()),
            "other_suffixes": ",".join(OTHER_SUFFIXES),
            "gpus_without_agents": agents.gpus_without_agents(problem.gpus) if agents else [],
            # What to confirm: why nobody can run it now.
            "warning": "",
            # Whether a draft in the browser may replace the code.
            "restores_draft": False,
            "numbers": [],
            "code_editor": CODE_EDITOR if self.has_code_editor else "",
            "nonce": nonce,
        }
        response = self.web.page(
            request, "editor.html", visitor.session, error, **(defaults | values)
        )
        # CodeMirror adds its styles to the page itself.
        styles = f"style-src 'self' 'nonce-{nonce}'"
        response.headers["Content-Security-Policy"] = SCRIPT_POLICY.replace(
            "style-src 'self'", styles
        )
        return response

    async def submit(
        self, request: Request, visitor: Visitor, slug: str, form: EditorForm
    ) -> Response:
        """Submit the code, and redirect to the result; if it is refused, show the reason."""
        refusal: Refused | Failed | None = None
        warning = ""
        try:
            caller = self._check_sender(request, visitor, form)
            upload = Upload(caller, form.submission(slug), VIA, form.idempotency_key)
            return self.web.redirect(_result_path(slug, await self.intake.submit(upload)))
        except Refused as refused:
            if refused.code == NO_AGENT:
                warning = refused.reason
            else:
                refusal = refused
        except Failed as failed:
            refusal = failed
        reads = await read_in_time(read_editor(visitor.reads, slug, ""))
        return await self.show(request, visitor, reads, form, refusal, warning=warning)

    def _check_sender(self, request: Request, visitor: Visitor, form: EditorForm) -> Caller:
        """Return who sent a form from one of our pages. Raises `Refused`."""
        if not self.web.is_own_form(request, visitor.session, form.csrf):
            raise Refused("bad_csrf", "this page was out of date: submit again")
        if visitor.session is None:
            raise Refused("missing_credential", "you are not logged in: log in to submit")
        return visitor.session.caller


def add_editor_pages(app: FastAPI, web: Web, ranker: ReadProxy, intake: Intake) -> None:
    """Add the editor, and the submission of its form."""
    router = APIRouter(route_class=route_class(web), include_in_schema=False)
    has_code_editor = (files("ingest.site") / "static" / CODE_EDITOR).is_file()
    editor = Editor(web, intake, has_code_editor)

    @router.get(PATH)
    async def show(
        request: Request, slug: str, language: Language = "", gpus: Gpus = (), numbers: Numbers = ()
    ) -> Response:
        """The editor with a starter; after several submissions at once, with their numbers."""
        visitor = await find_visitor(request, web, ranker)
        reads = await read_in_time(read_editor(visitor.reads, slug, language))
        form = new_form(reads, gpus)
        return await editor.show(
            request, visitor, reads, form, numbers=numbers, restores_draft=not language
        )

    @router.post(PATH)
    async def submit(request: Request, slug: str) -> Response:
        """Submit the code of the form."""
        visitor = await find_visitor(request, web, ranker)
        form = await read_form(request)
        if not request.cookies:
            # Browsers send our cookies with all forms but those of other sites.
            raise Refused("bad_csrf", "this form is not from this site, or cookies are turned off")
        return await editor.submit(request, visitor, slug, form)

    app.include_router(router)


def _result_path(slug: str, receipts: SubmissionReceipts) -> str:
    """Return the page of the submission; of several, the editor with their numbers."""
    numbers = [receipt.number for receipt in receipts.submissions]
    if len(numbers) == 1:
        return f"/submissions/{numbers[0]}"
    query = urlencode([("submission", number) for number in numbers])
    return f"{PATH.format(slug=quote(slug))}?{query}"


async def act(submissions: Submissions, number: int, caller: Caller, form: Form) -> int | None:
    """Carry out the action of a form; return the sequence of its last event, None without one.

    Raises `Refused` and `Failed`.
    """
    action = form.text("action")
    if action not in SCOPES:
        message = f"action: expected {', '.join(SCOPES)}, not {action[:20]!r}"
        raise Refused("invalid_request", message, "action")
    check_scope(caller, SCOPES[action])
    match action:
        case "cancel":
            return (await submissions.cancel(number, caller, "")).seq
        case "note":
            note = parse_form(NoteRequest, HINTS, note=form.text("note"), tag=form.text("tag"))
            await submissions.write_note(number, caller, note.to_note())
            return None
        case "appeal":
            text = form.text("text").replace("\r\n", "\n")
            appeal = parse_form(AppealRequest, HINTS, text=text)
            return (await submissions.appeal(number, caller, appeal.text)).seq
    if form.text("is_sure") != "yes":
        message = "withdraw: confirm that you want to withdraw it for ever"
        raise Refused("invalid_request", message, "is_sure")
    return (await submissions.withdraw(number, caller, "")).seq


async def wait_until_folded(reads: PageReads, seq: int) -> None:
    """Wait until the pages show an event, which takes milliseconds, but for a limited time."""
    # ranker answers a read of a number once it has folded everything before it.
    reading = reads.read(api_path("submissions", seq), FullSubmission)
    await read_if_possible(read_in_time(reading))


async def require_session(web: Web, request: Request) -> Session:
    """Return the session of a browser. Raises `NotLoggedIn` and `Failed`."""
    session = await web.session(request)
    if session is None:
        raise NotLoggedIn(request.url.path)
    return session


def add_submission_forms(
    router: APIRouter, page: SubmissionPage, ranker: ReadProxy, commands: Ingest
) -> None:
    """Add the forms of the page of a submission."""
    web = page.web

    @router.post("/submissions/{number}")
    async def send(request: Request, number: NumberInPath) -> Response:
        """Carry out an action of the owner, and show the submission again."""
        session = await require_session(web, request)
        form = await web.form(request, session)
        visitor = await find_visitor(request, web, ranker)
        try:
            seq = await act(commands.submissions, number, session.caller, form)
        except Refused as refused:
            rejected = RejectedForm(form, refused)
            return await page.render(request, visitor, number, rejected=rejected)
        if seq is not None:
            await wait_until_folded(visitor.reads, seq)
        return web.redirect(f"/submissions/{number}", NOTICES[form.text("action")])


async def submit_again(commands: Ingest, number: int, caller: Caller, form: Form) -> int:
    """Submit the same file again; return the new number. Raises `Refused` and `Failed`."""
    key = form.text("key")
    if not IDEMPOTENCY_KEY.match(key):
        raise Refused("bad_idempotency_key", "key: reload this page and try again", "key")
    request = await commands.submissions.repeat_request(number, caller, form.text("mode"))
    request = structs.replace(request, waits_for_agent=bool(form.text("confirmed")))
    receipts = await commands.intake.submit(Upload(caller, request, VIA, key))
    return receipts.submissions[0].number


def add_resubmission_page(router: APIRouter, web: Web, commands: Ingest) -> None:
    """Add the page that submits the file of a submission again."""
    path = "/submissions/{number}/resubmit"

    async def resubmission_page(
        request: Request,
        session: Session,
        number: int,
        form: Form | None = None,
        error: Refused | Failed | None = None,
    ) -> Response:
        submission = await commands.submissions.load_own(number, session.caller)
        key = form.text("key") if form else ""
        values = {
            "number": number,
            "received": submission.received,
            "modes": SUBMISSION_MODES,
            "mode": form.text("mode") if form else submission.received.mode,
            "must_confirm": isinstance(error, Refused) and error.code == NO_AGENT,
            # A form that is sent twice submits once.
            "key": key if IDEMPOTENCY_KEY.match(key) else new_id(),
        }
        return web.page(request, "resubmit.html", session, error, **values)

    @router.get(path)
    async def ask(request: Request, number: NumberInPath) -> Response:
        """Ask in which mode to submit again."""
        return await resubmission_page(request, await require_session(web, request), number)

    @router.post(path)
    async def resubmit(request: Request, number: NumberInPath) -> Response:
        """Submit the same file again, and show the new submission."""
        session = await require_session(web, request)
        form = await web.form(request, session)
        try:
            new_number = await submit_again(commands, number, session.caller, form)
        except (Refused, Failed) as error:
            return await resubmission_page(request, session, number, form, error)
        return web.redirect(f"/submissions/{new_number}", "It is submitted.")
