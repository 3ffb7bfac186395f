"""The forms for one's own submission: cancel, note, appeal, withdraw and submit again."""

from collections.abc import Mapping

from fastapi import APIRouter, Request, Response

from ingest.access.callers import Caller, check_scope
from ingest.bootstrap import Ingest
from ingest.http.idempotency import KEY
from ingest.http.request_models import APPEAL_LENGTH_MAX, NOTE_LENGTH_MAX
from ingest.login.service import Session
from ingest.login.web import Form, NotLoggedIn, Web, parse_form
from ingest.ports import ReadProxy
from ingest.site.reads import PageReads, api_path, find_visitor, read_if_possible, read_in_time
from ingest.site.submissions import NumberInPath, RejectedForm, SubmissionPage
from ingest.submissions.intake import Upload
from ingest.submissions.routes import AppealRequest, NoteRequest, Submissions
from shared.api.submissions import FullSubmission
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.events import MODES

# The scope that each action needs, as in the API.
SCOPES = {"cancel": "submit", "note": "submit", "appeal": "submit", "withdraw": "delete:own"}
# What the page says after an action.
NOTICES: Mapping[str, str] = {
    "cancel": "It will end without a verdict, and its quota will be refunded.",
    "note": "The note is saved.",
    "appeal": "The appeal is filed. A moderator decides it, and the decision appears on this page.",
    "withdraw": "It is withdrawn: it will never be on a leaderboard again.",
}
VIA = "web"
HINTS = {
    "note": f"note: write at most {NOTE_LENGTH_MAX} characters in one line",
    "tag": "tag: write at most 32 characters of a-z, 0-9, _, . and -, first a letter or a digit",
    "text": f"appeal: write 1 to {APPEAL_LENGTH_MAX:,} characters",
}


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
    if not KEY.match(key):
        raise Refused("bad_idempotency_key", "key: reload this page and try again", "key")
    request = await commands.submissions.repeat_request(number, caller, form.text("mode"))
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
            "modes": MODES,
            "mode": form.text("mode") if form else submission.received.mode,
            # A form that is sent twice submits once.
            "key": key if KEY.match(key) else new_id(),
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
