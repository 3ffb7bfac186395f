"""The routes of operators' pages: the overview, the tables, and the form of each act."""

import asyncio
import csv
import io
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, FastAPI, Query, Request, Response

from ingest.http.cookies import SESSION_COOKIE
from ingest.http.requests import NameOrAccount
from ingest.identity.login.service import Session
from ingest.identity.login.web import Web
from ingest.identity.scopes import ADMIN, STAFF_SCOPES
from ingest.identity.secrets import new_secret
from ingest.site.admin import catalogue, tables
from ingest.site.admin.acts import Act, SessionApi, check_any_scope, may_any
from ingest.site.admin.tables import Link, Operator, Row, Section, Tag
from ingest.site.reads import api_path, decode_response, read_if_possible, read_in_time
from shared.api.agents import Agents
from shared.api.queues import DeadLetters, IntakeStatus, Queues
from shared.errors import Failed, Refused

OVERVIEW_PAGE = "/admin"
# The scope that the refusal names is the last resort of the API's routes for operators, too.
STAFF = (ADMIN, *sorted(STAFF_SCOPES - {ADMIN}))
CONFIRMED = "yes"
CODE_COLUMNS = ("code", "leaderboards", "expires_at")

NameInQuery = Annotated[str, Query(alias="name", max_length=64)]
SlugInQuery = Annotated[str, Query(alias="leaderboard", max_length=95)]
RuleInQuery = Annotated[str, Query(max_length=64)]
After = Annotated[str, Query(pattern=r"^[A-Za-z0-9_-]{0,64}$")]
ReadSections = Callable[[Operator], Awaitable[list[Section]]]


class Page(NamedTuple):
    """A page of tables, for callers with one of these scopes.

    `read` returns the tables; None if they depend on the query.
    """

    path: str
    title: str
    scopes: Sequence[str]
    read: ReadSections | None = None


class Search(NamedTuple):
    """A form that opens another page of tables."""

    path: str
    label: str
    name: str
    value: str = ""


class AttentionCount(NamedTuple):
    """How many things on a page need attention, for callers with one of these scopes."""

    label: str
    path: str
    scopes: Sequence[str]
    read: Callable[[Operator], Awaitable[int]]


class ActForm(NamedTuple):
    """The form of an act, with the texts of its fields.

    `form_id` stays the same until the act is carried out. `is_confirmation` asks whether to do so.
    """

    act: Act
    values: Mapping[str, str]
    form_id: str
    is_confirmation: bool = False


class _ActResponse(msgspec.Struct):
    """A response of any route of an act; `event` is None if nothing had to change."""

    event: str | msgspec.UnsetType | None = msgspec.UNSET
    seq: int | None = None
    codes: list[str] = []
    leaderboards: list[str] = []

    def describe(self, done: str) -> str:
        """Return what was done, in a sentence."""
        if self.event is None:
            return "Nothing had to change."
        return f"{done} The log has it as event {self.seq}." if self.seq else done


async def _count_delayed(operator: Operator) -> int:
    return len(await tables.read_delayed(operator.api))


async def _count_held(operator: Operator) -> int:
    return sum(map(tables.is_held, await tables.read_decisions(operator.api)))


async def _count_appeals(operator: Operator) -> int:
    decisions = await tables.read_decisions(operator.api)
    return sum(decision.appeal == "filed" for decision in decisions)


async def _count_ban_appeals(operator: Operator) -> int:
    return len(operator.people.feed.rights().open_ban_appeals())


async def _count_agents(operator: Operator) -> int:
    agents = await operator.api.get(api_path("admin", "agents"), Agents)
    return sum(map(tables.is_quarantined, agents.items))


async def _count_closed(operator: Operator) -> int:
    status = await operator.api.get(api_path("intake"), IntakeStatus)
    queues = await operator.api.get(api_path("queue"), Queues)
    return (status.paused is not None) + sum(pool.paused is not None for pool in queues.pools)


async def _count_dead_letters(operator: Operator) -> int:
    letters = await operator.api.get(api_path("admin", "deadletters"), DeadLetters)
    queues = await operator.api.get(api_path("queue"), Queues)
    return len(letters.items) + (queues.parked is not None)


COUNTS = (
    AttentionCount(
        "Submissions that are stuck, overdue or without an agent",
        catalogue.OVERDUE_PAGE,
        catalogue.SUBMISSIONS,
        _count_delayed,
    ),
    AttentionCount("Held submissions", catalogue.HELD_PAGE, catalogue.SUBMISSIONS, _count_held),
    AttentionCount(
        "Open appeals about submissions",
        catalogue.APPEALS_PAGE,
        catalogue.SUBMISSIONS,
        _count_appeals,
    ),
    AttentionCount(
        "Open appeals against bans",
        catalogue.APPEALS_PAGE,
        catalogue.PARTICIPANTS,
        _count_ban_appeals,
    ),
    AttentionCount(
        "Agents in quarantine",
        catalogue.AGENTS_PAGE,
        catalogue.OPERATE,
        _count_agents,
    ),
    AttentionCount(
        "Closed intake and paused pools", catalogue.INTAKE_PAGE, catalogue.OPERATE, _count_closed
    ),
    AttentionCount(
        "Dead letters, and events that cannot be folded",
        catalogue.DEAD_LETTERS_PAGE,
        catalogue.OPERATE,
        _count_dead_letters,
    ),
)


async def _overview(operator: Operator) -> list[Section]:
    counts = [entry for entry in COUNTS if may_any(operator.caller, entry.scopes)]
    # The other counts are useful while the service behind one of them does not respond.
    numbers = await asyncio.gather(
        *(read_if_possible(read_in_time(entry.read(operator))) for entry in counts)
    )
    rows = [
        Row((Link(entry.label, entry.path), _count_tag(number)))
        for entry, number in zip(counts, numbers, strict=True)
    ]
    return [Section("What needs attention", ("What", "How many"), rows, "")]


def _count_tag(number: int | None) -> Tag:
    if number is None:
        return Tag("unknown: a service does not respond", "bad")
    return Tag(str(number), "bad" if number else "good")


async def _appeals(operator: Operator) -> list[Section]:
    sections = []
    if may_any(operator.caller, catalogue.SUBMISSIONS):
        sections.append(await tables.submission_appeals(operator))
    if may_any(operator.caller, catalogue.PARTICIPANTS):
        sections.append(await tables.ban_appeals(operator))
    return sections


LABELS = Page(catalogue.LABELS_PAGE, "Labels", catalogue.SUBMISSIONS)
PARTICIPANTS = Page(catalogue.PARTICIPANTS_PAGE, "Participants", catalogue.PARTICIPANTS)
INVITES = Page(catalogue.INVITES_PAGE, "Invites", catalogue.INVITES)
PAGES = (
    Page(OVERVIEW_PAGE, "Overview", STAFF, _overview),
    Page(catalogue.OVERDUE_PAGE, "Stuck and failed", catalogue.SUBMISSIONS, tables.overdue_tables),
    Page(catalogue.HELD_PAGE, "Held submissions", catalogue.HOLDS, tables.held_tables),
    Page(
        catalogue.APPEALS_PAGE,
        "Appeals",
        (*catalogue.SUBMISSIONS, *catalogue.PARTICIPANTS),
        _appeals,
    ),
    LABELS,
    PARTICIPANTS,
    Page(
        catalogue.EVALUATIONS_PAGE, "Evaluations", catalogue.SUBMISSIONS, tables.evaluation_tables
    ),
    Page(catalogue.AGENTS_PAGE, "Agents", catalogue.OPERATE, tables.agent_tables),
    Page(catalogue.INTAKE_PAGE, "Intake and pools", catalogue.OPERATE, tables.intake_tables),
    INVITES,
    Page(catalogue.DEAD_LETTERS_PAGE, "Dead letters", catalogue.OPERATE, tables.dead_letter_tables),
)


class AdminSite:
    """Renders operators' pages, which call the routes of `app` as their visitor."""

    def __init__(self, app: FastAPI, web: Web) -> None:
        self.app = app
        self.web = web

    async def open(self, request: Request, page: Page) -> tuple[Session, Operator]:
        """Return the operator who opens a page. Raises `NotLoggedIn`, `Refused` and `Failed`."""
        session = await self.web.require_session(request, page.path)
        check_any_scope(session.caller, page.scopes)
        return session, self.operator(session)

    def operator(self, session: Session) -> Operator:
        """Return the operator of a session, with the API as they may use it."""
        api = SessionApi(self.app, session.secret, self.web.cookies.name(SESSION_COOKIE))
        return Operator(session.caller, api, self.web.logins.people)

    def render(
        self,
        request: Request,
        session: Session,
        page: Page,
        sections: Sequence[Section],
        **values: Any,
    ) -> Response:
        """Render the tables of a page."""
        common = {
            "title": page.title,
            "sections": sections,
            "search": None,
            "is_allowed": lambda act: may_any(session.caller, act.scopes),
        }
        values = self.frame(session, page.path) | common | values
        return self.web.page(request, "admin.html", session, **values)

    def render_act(
        self,
        request: Request,
        session: Session,
        form: ActForm,
        error: Refused | Failed | None = None,
    ) -> Response:
        """Render the form of an act, or the question whether to carry it out."""
        values = {
            "path": request.url.path,
            "error_field": error.field if isinstance(error, Refused) else None,
            "back": form.act.page_after(form.values),
        }
        values |= form._asdict() | self.frame(session, form.act.page.partition("/{")[0])
        return self.web.page(request, "admin_act.html", session, error, **values)

    def frame(self, session: Session, path: str) -> dict[str, Any]:
        """Return the values of the navigation: the pages that a session may open."""
        pages = [page for page in PAGES if may_any(session.caller, page.scopes)]
        return {"pages": pages, "page_path": path}


def add_admin_pages(app: FastAPI, router: APIRouter, web: Web) -> None:
    """Add the pages of operators."""
    site = AdminSite(app, web)
    for page in PAGES:
        if page.read is not None:
            _add_page(router, site, page, page.read)
    _add_participants(router, site)
    _add_labels(router, site)

    @router.get(catalogue.INVITES_PAGE)
    async def invites(request: Request, slug: SlugInQuery = "") -> Response:
        """The invites to a leaderboard."""
        session, operator = await site.open(request, INVITES)
        slug = slug.strip().lower()
        error: Refused | None = None
        try:
            sections = await read_in_time(tables.invite_tables(operator, slug))
        except Refused as refused:
            error = refused
            sections = await tables.invite_tables(operator, "")
        search = Search(
            catalogue.INVITES_PAGE, "Problem whose invites you want to see", "leaderboard", slug
        )
        return site.render(request, session, INVITES, sections, search=search, error=error)

    _add_acts(router, site)


def _add_page(router: APIRouter, site: AdminSite, page: Page, read: ReadSections) -> None:
    @router.get(page.path)
    async def tables_page(request: Request) -> Response:
        """A page of tables."""
        session, operator = await site.open(request, page)
        sections = await read_in_time(read(operator))
        return site.render(request, session, page, sections)


def _add_participants(router: APIRouter, site: AdminSite) -> None:
    search = Search(catalogue.PARTICIPANTS_PAGE, "Open a participant by name or account", "name")

    @router.get(catalogue.PARTICIPANTS_PAGE)
    async def names(request: Request, name: NameInQuery = "", after: After = "") -> Response:
        """The participants, or the one that is searched for."""
        session, operator = await site.open(request, PARTICIPANTS)
        if name.strip():
            path = catalogue.PARTICIPANT_PAGE.format(name=quote(name.strip().lower(), safe=""))
            return site.web.redirect(path)
        sections = await read_in_time(tables.participant_tables(operator, after))
        return site.render(request, session, PARTICIPANTS, sections, search=search)

    @router.get(catalogue.PARTICIPANT_PAGE)
    async def participant(request: Request, name: NameOrAccount) -> Response:
        """A participant."""
        session, operator = await site.open(request, PARTICIPANTS)
        sections = await read_in_time(tables.participant_details(operator, name))
        return site.render(request, session, PARTICIPANTS, sections, title=name, search=search)


def _add_labels(router: APIRouter, site: AdminSite) -> None:
    @router.get(catalogue.LABELS_PAGE)
    async def labels(request: Request, rule: RuleInQuery = "") -> Response:
        """The submissions that the advisory screen labels."""
        session, operator = await site.open(request, LABELS)
        rule = rule.strip().lower()
        error: Refused | None = None
        try:
            sections = await read_in_time(tables.label_tables(operator, rule))
        except Refused as refused:
            error = refused
            sections = await read_in_time(tables.label_tables(operator, ""))
        label = "Rule, such as timer_patched, or least severity: high, medium or low"
        search = Search(catalogue.LABELS_PAGE, label, "rule", rule)
        return site.render(request, session, LABELS, sections, search=search, error=error)


def _add_acts(router: APIRouter, site: AdminSite) -> None:
    path, web = f"{catalogue.ACTS_PATH}/{{name}}", site.web

    @router.get(path)
    async def ask(request: Request, name: str) -> Response:
        """The form of an act; the query fills in its fields."""
        session = await web.require_session(request, request.url.path)
        act = _find_act(name)
        check_any_scope(session.caller, act.scopes)
        values = {
            field.name: request.query_params.get(field.name, field.default) for field in act.fields
        }
        return site.render_act(request, session, ActForm(act, values, new_secret()))

    @router.post(path)
    async def carry_out(request: Request, name: str) -> Response:
        """Carry out an act, or ask for confirmation first."""
        session, form = await web.require_form(request, request.url.path)
        act = _find_act(name)
        check_any_scope(session.caller, act.scopes)
        values = {field.name: form.text(field.name) for field in act.fields}
        sent = ActForm(act, values, form.text("form_id"))
        try:
            api_request = act.request(values)
            if act.warning and form.text("confirmed") != CONFIRMED:
                return site.render_act(request, session, sent._replace(is_confirmation=True))
            key = api_request.idempotency_key(sent.form_id)
            answer = await site.operator(session).api.send(*api_request, key)
        except (Refused, Failed) as error:
            return site.render_act(request, session, sent, error)
        response = decode_response(api_request.path, answer, _ActResponse)
        if response.codes:
            ends_at = f"{values['expires_at']}Z" if values["expires_at"] else ""
            return _render_codes(request, site, session, response, ends_at)
        notice = response.describe(act.notice.format(**values))
        return web.redirect(act.page_after(values), notice)


def _find_act(name: str) -> Act:
    act = catalogue.ACTS.get(name)
    if act is None:
        raise Refused("not_found", f"there is no form {name[:100]!r}")
    return act


def _render_codes(
    request: Request, site: AdminSite, session: Session, response: _ActResponse, ends_at: str
) -> Response:
    """Render new invite codes, with a link that saves them as a file."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(CODE_COLUMNS)
    leaderboards = " ".join(response.leaderboards)
    writer.writerows((code, leaderboards, ends_at) for code in response.codes)
    return site.web.page(
        request,
        "admin_codes.html",
        session,
        codes=response.codes,
        leaderboards=response.leaderboards,
        csv_url=f"data:text/csv;charset=utf-8,{quote(text.getvalue())}",
        **site.frame(session, catalogue.INVITES_PAGE),
    )
