"""Turns an upload into the submissions to accept, or refuses it; pure."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from harness.vocabulary import SUBMISSION_MODES
from ingest.consents.rules import LicenceChoice, check_consent, check_licence, licence_notice
from ingest.contests.admission import Attempt, ContestEntry, admit
from ingest.contests.state import ContestState
from ingest.identity.access.fold import Access
from ingest.identity.accounts.rules import Account
from ingest.identity.bans import check_ban
from ingest.identity.caller import Caller, check_scope
from ingest.identity.names import name_lost
from ingest.identity.scopes import SCOPE_OF_MODE
from ingest.ports import Note
from ingest.problems import rules as problems
from ingest.submissions import rules
from ingest.submissions.normal_form import normal_digest
from shared.api.submissions import SubmissionRequest
from shared.blobs import describe_blob
from shared.errors import Refused
from shared.events import (
    Blob,
    LauncherRegistered,
    ProblemPublished,
    RunOptions,
    SubmissionReceived,
)
from shared.problems.submission_file import MEDIA, choose_precision, suffix
from shared.source_files import PACKED_MEDIA

HTTP = "http"


class Upload(NamedTuple):
    """A submission request as it arrived.

    With an `operator` who sends it for the caller, it may come after the deadline and join a full
    queue.
    """

    caller: Caller
    request: SubmissionRequest
    via: str
    idempotency_key: str | None
    operator: str = ""


class SubmissionContext(NamedTuple):
    """What an upload is decided on, as it was loaded at a time.

    `new_id` was never used before. `contest` is that of the problem, None for none. `launcher` is
    the requested one, None if it is unknown. `has_name` is false if there is a note and the
    caller's name was lost. `asks_licence` is that of `AdmissionLimits`.
    """

    at: datetime
    new_id: str
    access: Access
    problem: problems.Problem
    contest: ContestState | None
    account: Account
    launcher: LauncherRegistered | None
    has_name: bool
    asks_licence: bool


@dataclass(frozen=True)
class SubmissionBatch:
    """The submissions of one request, one for each GPU type: all are accepted, or none.

    Their ids are derived from `scope`; with `has_key`, a repeated request has the same scope.
    `licence_notice` says that no licence was chosen, "" if one was.
    """

    account: str
    roles: Collection[str]
    problem: str
    submissions: Sequence[SubmissionReceived]
    source: bytes
    note: Note | None
    scope: str
    has_key: bool
    waits_for_agent: bool
    is_for_operator: bool
    licence_notice: str


def resolve(upload: Upload, context: SubmissionContext) -> SubmissionBatch:
    """Return the submissions of an upload. Raises `Refused`, in the order of the API contract."""
    request, slug = upload.request, upload.request.problem.lower()
    published = check_allowed(upload, slug, context)
    files = rules.parse_files(request, slug, published)
    check_ban(context.account.ban, context.at)
    check_consent(context.account.consents, slug, published)
    choice = LicenceChoice(request.licence, context.account.licence)
    notice = ""
    if context.asks_licence:
        notice = licence_notice(choice, request.mode, slug, published)
    if request.needs_licence:
        check_licence(notice)
    scope = _scope(upload, context.new_id)
    received = _received(upload, files, published, context.at)
    submissions = rules.with_requirements(received, files, published, request.runner)
    if request.runner:
        toolchains = {name: None for it in submissions for name in it.requires.toolchains}
        rules.check_runner(request.runner, files.gpus, toolchains, context.launcher)
    if not context.has_name:
        # A note that could not be stored is refused before anything is accepted.
        raise name_lost(received.account)
    note = Note(request.note or None, request.tag or None)
    return SubmissionBatch(
        account=received.account,
        roles=frozenset(context.access.roles.get(received.account, ())),
        problem=slug,
        submissions=submissions,
        source=files.blob,
        note=note if any(note) else None,
        scope=scope,
        has_key=upload.idempotency_key is not None,
        waits_for_agent=request.waits_for_agent,
        is_for_operator=bool(upload.operator),
        licence_notice=notice,
    )


def check_mode(mode: str) -> None:
    """Refuse an unknown mode."""
    if mode not in SUBMISSION_MODES:
        message = f"mode {mode!r} is not one of {', '.join(SUBMISSION_MODES)}"
        raise Refused("unknown_mode", message, "mode")


def run_options(requested: SubmissionRequest | SubmissionReceived) -> dict[str, Any]:
    """Return the options of a submission's run by their names, which are the same everywhere."""
    return {name: getattr(requested, name) for name in RunOptions.__struct_fields__}


def check_allowed(upload: Upload, slug: str, context: SubmissionContext) -> ProblemPublished:
    """Return the version to submit to. Raises `Refused` if the caller may not submit to it now."""
    check_mode(upload.request.mode)
    check_scope(upload.caller, SCOPE_OF_MODE[upload.request.mode])
    context.access.check_sees(upload.caller, slug)
    published = problems.newest_version(slug, context.problem)
    if upload.idempotency_key is None and not upload.operator:
        # A repeat is answered after the deadline, too: with a key, the time is checked later.
        check_admitted(upload, slug, context)
    return published


def check_admitted(upload: Upload, slug: str, context: SubmissionContext) -> ContestEntry | None:
    """Return what a submission is sent to, None if that is no contest.

    Raises `Refused` after the deadline, and for one that the problem's contest does not take.
    """
    attempt = Attempt(upload.caller.id, slug, upload.request.mode, context.at)
    return admit(attempt, context.problem, context.contest)


def _received(
    upload: Upload, files: rules.ParsedFiles, published: ProblemPublished, at: datetime
) -> SubmissionReceived:
    """Return the event of a submission, without its GPU type and requirements."""
    request, slug = upload.request, upload.request.problem.lower()
    media = PACKED_MEDIA if request.others else MEDIA[suffix(request.name)]
    source = describe_blob(files.blob, media)
    request_hash, options = _hash_request(request, slug, source), run_options(request)
    digest = normal_digest(files.texts)
    precision = choose_precision(request.precision, request.mode, files.directives)
    return SubmissionReceived(
        account=upload.caller.id,
        problem=slug,
        problem_number=published.number,
        problem_digest=published.digest,
        gpu="",
        mode=request.mode,
        source=source,
        name=rules.safe_name(request.name),
        deadline_at=rules.deadline(request.mode, published.budgets_s, at),
        via=upload.via,
        request_hash=request_hash,
        normal_digest=digest,
        licence=request.licence,
        parent=request.parent or files.directives.parent,
        **options | {"precision": precision},
    )


def _hash_request(request: SubmissionRequest, slug: str, blob: Blob) -> str:
    """Return the hash that two requests under one Idempotency-Key must share."""
    lines = [slug, request.mode, *sorted(request.gpus), request.name, blob.digest]
    note_lines = [request.note, request.tag] if request.note or request.tag else []
    options = run_options(request) | {"runner": request.runner, "licence": request.licence}
    options |= {"parent": request.parent}
    option_lines = [f"{name} {value}" for name, value in options.items() if value]
    text = "\n".join([*lines, *note_lines, *option_lines])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _scope(upload: Upload, new_id: str) -> str:
    """Return the scope that the submission ids are derived from.

    With a key, it consists of the account, the channel and the key. No key and no account contains
    a space.
    """
    key, account = upload.idempotency_key, upload.caller.id
    if key is None:
        return new_id
    return f"{account}/{key}" if upload.via == HTTP else f"{account} {upload.via} {key}"
