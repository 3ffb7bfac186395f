"""The pages of contests: the list, a contest with its forms, its organisers' page, calendars."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Path, Query, Request, Response

from ingest.bootstrap import Ingest
from ingest.http.cookies import SESSION_COOKIE
from ingest.identity.caller import ANONYMOUS, Caller
from ingest.identity.login.service import Session
from ingest.identity.login.web import HEADERS, SCRIPT_POLICY, Form, Web
from ingest.ports import ReadProxy
from ingest.site.admin.acts import SessionApi
from ingest.site.calendars import MEDIA_TYPE, render_calendar
from ingest.site.contest_tables import (
    TITLE_CHARS_MAX,
    DatedProblem,
    calendar_events,
    deadline_events,
    find_countdown,
    list_deadlines,
    list_phases,
    list_problems,
    list_rounds,
    read_lines,
    write_registrations,
    write_results,
    write_standing,
)
from ingest.site.formatting import render_markdown
from ingest.site.problems import read_problems
from ingest.site.reads import (
    Visitor,
    api_path,
    decode_response,
    find_visitor,
    read_if_possible,
    read_in_time,
)
from shared.api.contest_standings import ContestResults, ContestStanding, StandingRound
from shared.api.contests import Contestant, ContestCode, ContestDetails, ContestSummary
from shared.api.problems import Problem
from shared.api.queues import DecisionResponse
from shared.api.quotas import Balance
from shared.clock import now
from shared.contests.definition import Contest, ReviewItem, may_change_team
from shared.errors import Refused
from shared.presentation.contests import (
    PHASE_TITLES,
    REPETITION_TEXTS,
    ROUND_TITLES,
    STATE_TEXTS,
    describe_teams,
)
from shared.presentation.units import one_line

ROWS_MAX, CONTESTANTS_MAX = 1000, 200
SLUG_CHARS_MAX, SEARCH_CHARS_MAX = 64, 64
DECLARED = "declare-"
# What organisers do about the results, and what they read then.
RESULT_ACTS: Mapping[str, str] = {
    "finalists": "The finalists are admitted.",
    "propose": "The provisional results are announced.",
    "review": "The check is decided.",
    "confirm": "The results are final.",
}
CHECK_TITLES: Mapping[ReviewItem, str] = {
    "rerun": "Run again",
    "code": "Code read",
    "duplicates": "No duplicate",
    "declaration": "Declaration",
    "appeals": "Appeals",
}
# How long the page waits until readers are shown what was just decided.
FOLDED_LOOKS_MAX, FOLDED_PAUSE_S = 20, 0.1
JUDGEMENTS: Mapping[str, str] = {
    "question": "Question the declaration",
    "accept": "Accept the declaration",
    "disqualify": "Disqualify",
    "restore": "End the disqualification",
}

ContestInPath = Annotated[str, Path(max_length=SLUG_CHARS_MAX)]
RoundInQuery = Annotated[StandingRound | None, Query(alias="round")]
SearchText = Annotated[str, Query(alias="q", max_length=SEARCH_CHARS_MAX)]


class FormAction(NamedTuple):
    """A form of the page of a contest: the route of the API that it stands for, and its fields.

    With `declares` the body also has a division and what that demands. `must_confirm` names a box
    that must be checked, and says why.
    """

    method: str
    path: str
    notice: str
    fields: Sequence[str] = ()
    declares: bool = False
    must_confirm: tuple[str, str] | None = None


ACTIONS: Mapping[str, FormAction] = {
    "register": FormAction(
        *("POST", "registration", "You take part in this contest.", ("terms_digest", "code")),
        declares=True,
        must_confirm=("accepts", "terms: accept the terms of the contest to take part"),
    ),
    "declare": FormAction("PUT", "declaration", "Your declaration is saved.", declares=True),
    "withdraw": FormAction(
        *("DELETE", "registration", "You no longer take part in this contest."),
        must_confirm=("is_sure", "withdraw: confirm that you no longer want to take part"),
    ),
    "create-team": FormAction("POST", "team", "", ("name",)),
    "join-team": FormAction("POST", "team/join", "You are in the team.", ("code",)),
    "leave-team": FormAction("POST", "team/leave", "You left the team."),
    "remove-member": FormAction(
        "POST", "team/leave", "They are no longer in the team.", ("participant",)
    ),
    "change-code": FormAction("POST", "team/code", ""),
    "change-captain": FormAction(
        "PUT", "team/captain", "The team has another captain.", ("participant",)
    ),
}
# Their answers are a code, which is shown once.
CODE_ACTIONS = ("create-team", "change-code")


class ContestRequest(NamedTuple):
    """The request of the API that a form of a page stands for."""

    method: str
    path: str
    body: Mapping[str, object] | None = None


class FormResult(NamedTuple):
    """A form that was sent: rejected with an error, or answered with a code that is shown once."""

    form: Form
    error: Refused | None = None
    code: str = ""


UNSENT = FormResult(Form({}))


def make_request(slug: str, contest: Contest, form: Form) -> ContestRequest:
    """Return the request of a form. Raises `Refused` for an unknown or unconfirmed action."""
    name = form.text("action")
    action = ACTIONS.get(name)
    if action is None:
        message = f"action: expected one of {', '.join(ACTIONS)}, not {name[:20]!r}"
        raise Refused("invalid_request", message, "action")
    if action.must_confirm is not None:
        field, message = action.must_confirm
        if form.text(field) != "yes":
            raise Refused("invalid_request", message, field)
    path = f"{api_path('contests', slug)}/{action.path}"
    body: dict[str, object] = {field: form.text(field) for field in action.fields}
    if action.declares:
        division = contest.division(form.text("division"))
        declared = division.declare if division else ()
        body["division"] = form.text("division")
        body["declaration"] = {name: form.text(f"{DECLARED}{name}") for name in declared}
    return ContestRequest(action.method, path, None if action.method == "DELETE" else body)


@dataclass(frozen=True)
class ContestPages:
    """Renders the pages of contests; their forms call the API's own routes as their visitor."""

    app: FastAPI
    web: Web
    ranker: ReadProxy
    commands: Ingest

    async def render(
        self,
        request: Request,
        slug: str,
        round_: StandingRound | None = None,
        sent: FormResult = UNSENT,
    ) -> Response:
        """Return the page of a contest, with what became of a form.

        Raises `Refused` and `Failed`.
        """
        visitor, details = await self._open(request, slug)
        contest, at = details.contest, now()
        standing, problems = await self._read(visitor, slug, round_, at, contest)
        own = details.own
        values: dict[str, Any] = {
            "details": details,
            "contest": contest,
            "description": await asyncio.to_thread(render_markdown, contest.description),
            "prizes": await asyncio.to_thread(render_markdown, contest.prizes),
            "terms": await asyncio.to_thread(render_markdown, contest.terms),
            "teams_text": describe_teams(contest),
            "phases": list_phases(contest, at),
            "countdown": find_countdown(contest, at),
            "problems": list_problems(contest, problems, standing, at),
            "standing": standing,
            "rounds": list_rounds(contest, at),
            "round_titles": ROUND_TITLES,
            "state_text": STATE_TEXTS[standing.state] if standing else "",
            "rows_max": ROWS_MAX,
            "account": visitor.account,
            "own": own,
            "balances": await self._phase_balances(visitor, slug),
            "is_captain": own is not None and own.is_team and own.captain == visitor.account,
            "may_change_team": may_change_team(contest, at),
            "declared": list(dict.fromkeys(n for d in contest.divisions for n in d.declare)),
            "declaration": _shown_declaration(own, sent.form),
            "division": sent.form.text("division") or (own.division if own else ""),
            "action": sent.form.text("action"),
            "may_organise": _may_organise(details, visitor.session),
            "code": sent.code,
        }
        return self.web.public_page(
            request, "contest.html", visitor.session, has_script=True, error=sent.error, **values
        )

    async def _phase_balances(self, visitor: Visitor, slug: str) -> list[Balance]:
        """Return what the visitor has left of the quotas of the current phase."""
        if visitor.session is None:
            return []
        balances = await self.commands.contests.phase_balances(visitor.session.caller, "")
        return [balance for balance in balances if balance.contest == slug]

    async def _open(self, request: Request, slug: str) -> tuple[Visitor, ContestDetails]:
        visitor = await find_visitor(request, self.web, self.ranker)
        caller = visitor.session.caller if visitor.session else ANONYMOUS
        return visitor, await self.commands.contests.details(caller, slug)

    async def _read(
        self,
        visitor: Visitor,
        slug: str,
        round_: StandingRound | None,
        at: datetime,
        contest: Contest,
    ) -> tuple[ContestStanding | None, list[Problem]]:
        """Return the standing, None before a round and while it cannot be read, and the problems
        that the visitor can see.
        """
        reads = visitor.reads
        problems = read_if_possible(read_in_time(read_problems(reads, contest=slug, state="all")))
        if not list_rounds(contest, at):
            return None, await problems or []
        path = api_path("contests", slug, "standing")
        reading = read_if_possible(read_in_time(reads.read(path, ContestStanding, round=round_)))
        standing, visible = await asyncio.gather(reading, problems)
        return standing, visible or []

    async def send(self, request: Request, slug: str) -> Response:
        """Carry out a form of the page of a contest, and show the page again."""
        path = f"/contests/{quote(slug, safe='')}"
        session, form = await self.web.require_form(request, path)
        details = await self.commands.contests.details(session.caller, slug)
        try:
            api_request = make_request(slug, details.contest, form)
            answer = await self._api(session).send(*api_request)
        except Refused as refused:
            return await self.render(request, slug, sent=FormResult(form, refused))
        action = form.text("action")
        if action in CODE_ACTIONS:
            code = decode_response(api_request.path, answer, ContestCode).code
            return await self.render(request, slug, sent=FormResult(Form({}), code=code))
        return self.web.redirect(path, ACTIONS[action].notice)

    def _api(self, session: Session) -> SessionApi:
        return SessionApi(self.app, session.secret, self.web.cookies.name(SESSION_COOKIE))

    async def open_as_organiser(
        self, request: Request, slug: str
    ) -> tuple[Session, ContestDetails, list[Contestant]]:
        """Return an organiser's session, the contest, and all that is known of its contestants.

        Raises `NotLoggedIn`, `Refused` for anybody else, and `Failed`.
        """
        session = await self.web.require_session(request, request.url.path)
        details = await self.commands.contests.details(session.caller, slug)
        if not _may_organise(details, session):
            message = f"only the organisers of {slug} and moderators can open this page"
            raise Refused("not_yours", message)
        return session, details, await self.commands.contests.contestants(session.caller, slug)

    async def render_organiser(
        self,
        request: Request,
        slug: str,
        search: str,
        sent: FormResult | None = None,
    ) -> Response:
        """Return the page of the organisers of a contest. Raises as `open_as_organiser`."""
        session, details, contestants = await self.open_as_organiser(request, slug)
        visitor = await find_visitor(request, self.web, self.ranker)
        path = api_path("contests", slug, "standing")
        at = now()
        standing = await read_if_possible(read_in_time(visitor.reads.read(path, ContestStanding)))
        results_path = api_path("contests", slug, "results")
        results = await read_if_possible(
            read_in_time(visitor.reads.read(results_path, ContestResults))
        )
        ends_at = max(problem.ends_at for problem in details.contest.problems)
        matching = [
            contestant for contestant in contestants if _matches(contestant, search.lower())
        ]
        # Links beside a contestant fill in the form.
        sent = sent or FormResult(Form({it: [text] for it, text in request.query_params.items()}))
        values: dict[str, Any] = {
            "details": details,
            "contest": details.contest,
            "path": f"/contests/{quote(slug, safe='')}",
            "phases": list_phases(details.contest, at),
            "countdown": find_countdown(details.contest, at),
            "contestants": matching[:CONTESTANTS_MAX],
            "more": max(0, len(matching) - CONTESTANTS_MAX),
            "doubted": [contestant for contestant in contestants if contestant.doubt],
            "disqualified": [it for it in contestants if it.is_disqualified],
            "search": search,
            "judgements": JUDGEMENTS,
            "act": sent.form.text("act"),
            "contestant": sent.form.text("contestant"),
            "reason": sent.form.text("reason"),
            "standing": standing,
            "results": results,
            "runs_text": REPETITION_TEXTS,
            "check_titles": CHECK_TITLES,
            "at": at,
            "ends_at": ends_at,
            "results_due": ends_at <= at,
            "results_open": results is not None and results.state == "none",
            "has_finals": _has_finals(details.contest),
            "may_invite": details.is_organiser or session.caller.may("admin:problems"),
            "code": sent.code,
        }
        page = self.web.page(request, "contest_organise.html", session, sent.error, **values)
        page.headers["Content-Security-Policy"] = SCRIPT_POLICY
        return page

    async def send_as_organiser(self, request: Request, slug: str) -> Response:
        """Carry out a form of the organisers' page, and show it again."""
        path = f"/contests/{quote(slug, safe='')}/organise"
        session, form = await self.web.require_form(request, path)
        try:
            api_request = _organiser_request(slug, form)
            answer = await self._api(session).send(*api_request)
        except Refused as refused:
            return await self.render_organiser(request, slug, "", FormResult(form, refused))
        act = form.text("act")
        if act == "invite":
            code = decode_response(api_request.path, answer, ContestCode).code
            return await self.render_organiser(request, slug, "", FormResult(Form({}), code=code))
        if act in RESULT_ACTS:
            decision = decode_response(api_request.path, answer, DecisionResponse)
            await self._wait_until_shown(request, slug, decision.seq or 0)
            return self.web.redirect(f"{path}#results", RESULT_ACTS[act])
        return self.web.redirect(path, "It is decided; the contestant can read your reason.")

    async def _wait_until_shown(self, request: Request, slug: str, seq: int) -> None:
        """Wait, for a while, until the results are as of an event."""
        visitor = await find_visitor(request, self.web, self.ranker)
        path = api_path("contests", slug, "results")
        for _ in range(FOLDED_LOOKS_MAX):
            reading = read_in_time(visitor.reads.read(path, ContestResults))
            results = await read_if_possible(reading)
            if results is None or results.as_of >= seq:
                return
            await asyncio.sleep(FOLDED_PAUSE_S)


def _has_finals(contest: Contest) -> bool:
    """Return whether finalists are admitted after a qualifier."""
    rounds = {problem.round for problem in contest.problems}
    return contest.finalists > 0 and {"qualifier", "finals"} <= rounds


def _results_request(slug: str, form: Form) -> ContestRequest:
    """Return the request of a form about the results."""
    match form.text("act"):
        case "finalists":
            return ContestRequest("POST", api_path("contests", slug, "finalists"), {})
        case "propose":
            return ContestRequest("POST", api_path("contests", slug, "results"), {})
        case "confirm":
            return ContestRequest("POST", api_path("contests", slug, "results", "confirm"), {})
        case _:
            body = {
                "contestant": form.text("contestant"),
                "item": form.text("item"),
                "is_passed": form.text("is_passed") == "true",
                "note": form.text("note"),
            }
            return ContestRequest("POST", api_path("contests", slug, "reviews"), body)


def _organiser_request(slug: str, form: Form) -> ContestRequest:
    act = form.text("act")
    if act in RESULT_ACTS:
        return _results_request(slug, form)
    if act == "invite":
        count = form.text("people_max")
        if not (count.isascii() and count.isdigit()):
            message = f"people: {count[:20]!r} is not a number"
            raise Refused("invalid_request", message, "people_max")
        body: dict[str, object] = {"people_max": int(count)}
        return ContestRequest("POST", api_path("contests", slug, "invites"), body)
    if act not in JUDGEMENTS:
        message = f"decision: expected one of {', '.join(JUDGEMENTS)}, not {act[:20]!r}"
        raise Refused("invalid_request", message, "act")
    if not form.text("reason"):
        raise Refused("invalid_request", "reason: fill in this field", "reason")
    body = {"contestant": form.text("contestant"), "reason": form.text("reason")}
    return ContestRequest("POST", api_path("contests", slug, "contestants", act), body)


def _may_organise(details: ContestDetails, session: Session | None) -> bool:
    """Return whether a visitor may open the organisers' page."""
    if session is None:
        return False
    caller: Caller = session.caller
    return details.is_organiser or caller.may("admin:problems") or caller.may("admin:submissions")


def _shown_declaration(own: Contestant | None, form: Form) -> dict[str, str]:
    """Return what the fields of a declaration show: what was sent, or else what is declared."""
    declared = dict(own.declaration or {}) if own else {}
    sent = {
        name.removeprefix(DECLARED): form.text(name)
        for name in form.fields
        if name.startswith(DECLARED)
    }
    return declared | sent


def _matches(contestant: Contestant, text: str) -> bool:
    names = [contestant.name, *(member.participant for member in contestant.members)]
    return not text or any(text in (name or "").lower() for name in names)


def add_contest_pages(
    app: FastAPI, router: APIRouter, web: Web, ranker: ReadProxy, commands: Ingest
) -> None:
    """Add the pages of contests, and the calendars."""
    pages = ContestPages(app, web, ranker, commands)
    _add_list(router, pages)
    _add_calendars(router, pages)
    _add_organiser_pages(router, pages)

    @router.get("/contests/{slug}/standing.csv")
    async def standing(
        request: Request, slug: ContestInPath, round_: RoundInQuery = None
    ) -> Response:
        """The standing of a contest as the visitor sees it, for spreadsheets."""
        visitor = await find_visitor(request, web, ranker)
        path = api_path("contests", slug, "standing")
        read = await read_in_time(visitor.reads.read(path, ContestStanding, round=round_))
        return _csv_response(write_standing(read), f"{slug}-standing.csv")

    @router.get("/contests/{slug}")
    async def contest(
        request: Request, slug: ContestInPath, round_: RoundInQuery = None
    ) -> Response:
        """A contest: its phases, problems, standing, rules and forms."""
        return await pages.render(request, slug, round_)

    @router.post("/contests/{slug}")
    async def send(request: Request, slug: ContestInPath) -> Response:
        """Register, declare, or change one's team."""
        return await pages.send(request, slug)


def _csv_response(data: bytes, name: str) -> Response:
    headers = HEADERS | {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(data, headers=headers, media_type="text/csv; charset=utf-8")


def _add_list(router: APIRouter, pages: ContestPages) -> None:
    web = pages.web

    @router.get("/contests")
    async def contests(request: Request) -> Response:
        """The contests, and each other leaderboard with a deadline: its fastest entries."""
        visitor = await find_visitor(request, web, pages.ranker)
        reading = asyncio.gather(read_problems(visitor.reads), read_lines(visitor.reads))
        summaries, (problems, lines) = await asyncio.gather(
            pages.commands.contests.listed(), read_in_time(reading)
        )
        slugs = {summary.slug for summary in summaries}
        known = [
            DatedProblem(problem, at, lines.get((problem.slug, problem.problem_version), {}))
            for problem, at in list_deadlines(problems)
            if problem.contest not in slugs
        ]
        values: dict[str, Any] = {
            "contests": [it for it in summaries if not _is_over(it)],
            "past_contests": [it for it in summaries if _is_over(it)],
            "phase_titles": PHASE_TITLES,
            "active": [dated for dated in known if not dated.problem.is_over],
            "ended": [dated for dated in reversed(known) if dated.problem.is_over],
        }
        return web.public_page(request, "contests.html", visitor.session, has_script=True, **values)


def _is_over(summary: ContestSummary) -> bool:
    """Return whether a contest is archived, or its last phase is over."""
    return summary.phase == "archive" or (summary.phase is None and summary.next_phase is None)


def _add_calendars(router: APIRouter, pages: ContestPages) -> None:
    web, public_url = pages.web, pages.web.logins.public_url

    @router.get("/deadlines.ics")
    async def calendar(request: Request) -> Response:
        """The deadlines and phases that the visitor can see; calendar programs send no cookie."""
        visitor = await find_visitor(request, web, pages.ranker)
        contests = pages.commands.contests
        problems, summaries = await asyncio.gather(
            read_in_time(read_problems(visitor.reads)), contests.listed()
        )
        details = await asyncio.gather(*(contests.details(ANONYMOUS, it.slug) for it in summaries))
        dates = deadline_events(problems, public_url)
        dates += [date for it in details for date in calendar_events(it.contest, public_url)]
        text = render_calendar("Warpboard deadlines", dates, public_url, now())
        return Response(text, headers=HEADERS, media_type=MEDIA_TYPE)

    @router.get("/contests/{slug}/phases.ics")
    async def phases(slug: ContestInPath) -> Response:
        """The phases of a contest, for calendar programs."""
        contest = (await pages.commands.contests.details(ANONYMOUS, slug)).contest
        dates = calendar_events(contest, public_url)
        text = render_calendar(one_line(contest.title, TITLE_CHARS_MAX), dates, public_url, now())
        return Response(text, headers=HEADERS, media_type=MEDIA_TYPE)


def _add_organiser_pages(router: APIRouter, pages: ContestPages) -> None:
    @router.get("/contests/{slug}/organise")
    async def organise(request: Request, slug: ContestInPath, search: SearchText = "") -> Response:
        """The contestants, their declarations and the decisions about them, for organisers."""
        return await pages.render_organiser(request, slug, search.strip())

    @router.post("/contests/{slug}/organise")
    async def decide(request: Request, slug: ContestInPath) -> Response:
        """Decide about a contestant, or create the code of an invite."""
        return await pages.send_as_organiser(request, slug)

    @router.get("/contests/{slug}/registrations.csv")
    async def registrations(request: Request, slug: ContestInPath) -> Response:
        """Everybody who takes part, for organisers and their spreadsheets."""
        *_, contestants = await pages.open_as_organiser(request, slug)
        return _csv_response(write_registrations(contestants), f"{slug}-registrations.csv")

    @router.get("/contests/{slug}/results.csv")
    async def results(request: Request, slug: ContestInPath) -> Response:
        """The results with the check lists, for organisers and their spreadsheets."""
        await pages.open_as_organiser(request, slug)
        visitor = await find_visitor(request, pages.web, pages.ranker)
        path = api_path("contests", slug, "results")
        read = await read_in_time(visitor.reads.read(path, ContestResults))
        return _csv_response(write_results(read), f"{slug}-results.csv")
