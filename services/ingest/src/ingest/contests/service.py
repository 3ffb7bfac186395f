"""Publishes contests, and lets people take part in them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import NamedTuple
from weakref import WeakValueDictionary

from msgspec import structs

from harness.hidden_sizes import GROUPS
from ingest.contests.commands import (
    AdmitFinalists,
    ChangeCaptain,
    ChangeTeamCode,
    ConfirmResults,
    ContestCommand,
    CreateTeam,
    Declare,
    IssueContestInvite,
    JoinTeam,
    LeaveTeam,
    Moderate,
    ProposeResults,
    PublishContest,
    Register,
    ReviewWinner,
    WithdrawRegistration,
)
from ingest.contests.results import check_has_finalists
from ingest.contests.rules import CONTEST_DECIDER, decide, fold_team_name
from ingest.contests.state import ContestState, definition, fold_contest, unknown_contest
from ingest.decisions import (
    DECISIONS_MAX,
    AggregateCommand,
    DecisionResult,
    Decisions,
    back_off,
    http_append,
)
from ingest.histories import FoldedState, HistoryCache
from ingest.identity.access.feed import AccessFeed
from ingest.identity.caller import Caller, check_problem, check_scope, check_unlimited
from ingest.identity.secrets import hash_secret, new_invite_code
from ingest.ports import AccountStore, Lookups, resolve_account
from ingest.problems import rules as problems
from ingest.problems.commands import Change
from ingest.problems.service import load_problem
from ingest.quotas.rules import CATEGORIES, PhaseQuota, phase_bucket
from ingest.quotas.service import Quotas
from shared import subjects
from shared.api import contests as api
from shared.api.contest_standings import ContestStanding
from shared.api.quotas import Balance
from shared.clock import new_id
from shared.contests.definition import (
    Contest,
    ContestPlace,
    ContestProblem,
    is_in_window,
    is_over,
    is_registration_open,
    next_phase,
    phase_at,
    round_at,
)
from shared.errors import Failed, Refused
from shared.event_log import Appender, Conflict
from shared.events import ContestPublished, ProblemPublished, QuotaLimitSet
from shared.presentation.contests import find_outdated
from shared.problems.contest_yml import read_contest_yml

ORGANISE = "account"
LISTED_MAX = 500
# How long to wait until ranker has folded the newest event of a contest.
STANDING_LOOKS_MAX = 50
STANDING_PAUSE_S = 0.1


class ContestUpload(NamedTuple):
    """A `contest.yml` with the files beside it; `is_update` for a contest that exists."""

    contest_yml: bytes
    files: Mapping[str, bytes]
    is_update: bool
    is_dry_run: bool
    reason: str


class Registration(NamedTuple):
    """What a participant sends to take part; `code` is of an invite, "" for none."""

    division: str
    terms_digest: str
    declaration: Mapping[str, str]
    code: str


async def load_contest(slug: str, histories: HistoryCache) -> ContestState | None:
    """Return the state of a problem's contest; None for "" and for a mere name.

    Problems could be given a name of a contest that has no definition. Raises `Failed`.
    """
    try:
        aggregate = subjects.contest(slug)
    except ValueError:
        return None
    state = (await histories.load(aggregate, ContestState(), fold_contest)).state
    return None if state.contest is None else state


@dataclass(frozen=True)
class ContestCommands:
    """Publishes contests, and lets people take part. Methods may raise `Refused` and `Failed`."""

    decisions: Decisions
    histories: HistoryCache
    feed: AccessFeed
    store: AccountStore
    lookups: Lookups
    quotas: Quotas
    _turns: WeakValueDictionary[str, asyncio.Lock] = field(
        default_factory=WeakValueDictionary, compare=False, repr=False
    )

    async def publish(self, caller: Caller, upload: ContestUpload) -> api.PublishedContest:
        """Publish a version of a contest, and set the deadlines of its problems; or neither."""
        file = await asyncio.to_thread(read_contest_yml, upload.contest_yml, upload.files)
        slug = file.contest.slug
        before = (await self._load(slug)).state
        if upload.is_update:
            self._check_organises(caller, slug, before)
        organisers = [
            await self._organiser(index, name) for index, name in enumerate(file.organisers)
        ]
        contest = structs.replace(
            file.contest,
            organisers=organisers,
            problems=[
                await self._problem(caller, slug, index, problem, before)
                for index, problem in enumerate(file.contest.problems)
            ],
        )
        at = self.decisions.clock()
        commands = [
            AggregateCommand(
                subjects.contest(slug),
                CONTEST_DECIDER,
                PublishContest(contest, upload.is_update, upload.reason, at),
            ),
            *_problem_commands(contest, before.contest, upload.reason, at),
        ]
        if upload.is_dry_run:
            facts: Sequence[object] = await self.decisions.preview(commands)
        else:
            async with self._turns.setdefault(slug, asyncio.Lock()):
                facts = (await self.decisions.make_all(commands, caller.actor)).facts
        published = next((fact for fact in facts if isinstance(fact, ContestPublished)), None)
        return api.PublishedContest(
            slug=slug,
            number=published.number if published else before.number,
            is_new=published is not None,
            moved=published.moved if published else [],
        )

    async def check_author_may_change(self, problem: str, slug: str) -> None:
        """Refuse what an author changes of a problem that its contest `slug` is using.

        From the start of its window on, until the results are final or the contest is over.
        """
        state = await load_contest(slug, self.histories)
        contest = state.contest if state is not None else None
        entered = contest.problem(problem) if contest is not None else None
        at = self.decisions.clock()
        if state is None or contest is None or entered is None or entered.starts_at > at:
            return
        if not (state.is_final or is_over(contest, at)):
            message = f"{problem} is in the contest {slug}, which goes on: wait until it is over"
            raise Refused("wrong_state", f"{message}, or ask an operator", "problem")

    async def contests_that_bind(self, account: str) -> list[str]:
        """Return the contests that are not over and in which an account has a part."""
        at = self.decisions.clock()
        return [
            folded.state.contest.slug
            for folded in await self._load_all()
            if folded.state.contest and folded.state.binds(account)
            if not is_over(folded.state.contest, at)
        ]

    async def phase_balances(self, caller: Caller, problem: str) -> list[Balance]:
        """Return what a caller has left in current phases, of one problem or, for "", of all."""
        at, account = self.decisions.clock(), caller.account
        if account is None:
            return []
        states = [folded.state for folded in await self._load_all()]
        balances: list[Balance] = []
        for state in states:
            if state.contest is None or account not in state.people:
                continue
            contestant = state.contestant_of(account)
            earlier = state.earlier_contestants(contestant)
            quota = await self.quotas.load_phase(state.contest, contestant, at, earlier)
            if quota is not None:
                balances += _phase_balances(quota, at)
        # A contest may have closed leaderboards that the caller has not joined.
        return [
            balance
            for balance in balances
            if (slug := balance.bucket.partition(".")[0]) == (problem or slug)
            if self._sees(caller, slug)
        ]

    def _sees(self, caller: Caller, slug: str) -> bool:
        try:
            self.feed.rights().check_sees(caller, slug)
        except Refused:
            return False
        return True

    async def limit_team(
        self, slug: str, team: str, command: QuotaLimitSet, operator: str
    ) -> DecisionResult:
        """Set the limit of a contestant in phases of a contest, for operators.

        `team` is the id or the name of a team, or the account or the name of a person without one.
        """
        state = await self.state(slug)
        contestant = await self._subject(state, team)
        if not state.members_of(contestant):
            message = f"{team} is neither a team of {slug} nor somebody who competes alone there"
            raise Refused("unknown_contestant", message, "team")
        return await self.quotas.limit_contestant(
            definition(slug, state), contestant, command, operator
        )

    async def _load_all(self) -> list[FoldedState[ContestState]]:
        """Return the states of all names of contests that problems ever had."""
        boards = self.feed.rights().boards.values()
        slugs = sorted({slug for board in boards for slug in board.contests})
        return await asyncio.gather(*(self._load(slug) for slug in slugs))

    async def listed(self) -> list[api.ContestSummary]:
        """Return the contests that started last, newest first."""
        states = await self._load_all()
        at = self.decisions.clock()
        known = [(folded.state, folded.state.contest) for folded in states]
        summaries = [_summary(state, contest, at) for state, contest in known if contest]
        starts = {contest.slug: contest.starts_at for _, contest in known if contest}
        newest = sorted(summaries, key=lambda summary: starts[summary.slug], reverse=True)
        return newest[:LISTED_MAX]

    async def details(self, caller: Caller, slug: str) -> api.ContestDetails:
        """Return a contest, and the part that a caller takes in it."""
        state = await self.state(slug)
        contest, at, account = definition(slug, state), self.decisions.clock(), caller.account
        phase, following = phase_at(contest, at), next_phase(contest, at)
        own = None
        if account is not None and account in state.people:
            contestant = state.contestant_of(account)
            names = await self.store.names_of(state.members_of(contestant))
            own = _describe_contestant(state, contestant, names, is_full=True)
        return api.ContestDetails(
            contest=contest,
            number=state.number,
            terms_digest=contest.terms_digest,
            organisers=_describe_members(
                contest.organisers, await self.store.names_of(contest.organisers)
            ),
            phase=phase.kind if phase else None,
            phase_ends_at=phase.ends_at if phase else None,
            next_phase=following.kind if following else None,
            next_phase_at=following.starts_at if following else None,
            is_registration_open=is_registration_open(contest, at),
            people_count=len(state.people),
            contestants_count=len(_contestants(state)),
            is_organiser=state.is_organiser(account),
            own=own,
            accepted_terms=state.people.get(account) if account is not None else None,
        )

    async def contestants(self, caller: Caller, slug: str) -> list[api.Contestant]:
        """Return the contestants of a contest by name; organisers see all that is known of them."""
        state = await self.state(slug)
        is_full = state.is_organiser(caller.account) or caller.is_staff
        names = await self.store.names_of(list(state.people))
        items = [
            _describe_contestant(
                state, contestant, names, is_full or caller.account in state.members_of(contestant)
            )
            for contestant in _contestants(state)
        ]
        return sorted(items, key=lambda item: (item.name or "", item.contestant))

    async def state(self, slug: str) -> ContestState:
        """Return the state of a contest. Raises `Refused` (`unknown_contest`)."""
        state = (await self._load(slug)).state
        definition(slug, state)
        return state

    async def register(self, caller: Caller, slug: str, request: Registration) -> DecisionResult:
        """Take part in a contest; authors of its problems know more than others, and cannot."""
        contest = definition(slug, await self.state(slug))
        own = next((it.slug for it in contest.problems if it.slug in caller.owned), None)
        if own is not None:
            message = f"you are the author of {own}, so you cannot take part in this contest"
            raise Refused("wrong_state", message)
        command = partial(
            Register,
            account=caller.id,
            division=request.division,
            terms_digest=request.terms_digest,
            declaration=request.declaration,
            code_hash=hash_secret(request.code) if request.code else "",
        )
        return await self._decide(slug, caller, lambda at: command(at=at))

    async def withdraw(self, caller: Caller, slug: str) -> DecisionResult:
        """Take part no longer, and leave one's team."""
        return await self._decide(slug, caller, partial(WithdrawRegistration, caller.id))

    async def declare(
        self, caller: Caller, slug: str, division: str, declaration: Mapping[str, str]
    ) -> DecisionResult:
        """Choose a division and declare what it demands, for oneself or one's team."""
        command = partial(Declare, caller.id, division, declaration)
        return await self._decide(slug, caller, command)

    async def create_team(self, caller: Caller, slug: str, name: str) -> api.ContestCode:
        """Form a team; others join it with the code."""
        code, team = new_invite_code(), new_id()
        command = partial(CreateTeam, caller.id, team, name, hash_secret(code))
        await self._decide(slug, caller, command)
        return api.ContestCode(code=code, team=team)

    async def join_team(self, caller: Caller, slug: str, code: str) -> DecisionResult:
        """Join the team with a code."""
        return await self._decide(slug, caller, partial(JoinTeam, caller.id, hash_secret(code)))

    async def leave_team(self, caller: Caller, slug: str, member: str | None) -> DecisionResult:
        """Leave one's team, or as its captain remove a member."""
        account = await self._account(member) if member else caller.id
        return await self._decide(slug, caller, partial(LeaveTeam, caller.id, account))

    async def change_team_code(self, caller: Caller, slug: str) -> api.ContestCode:
        """Replace the code of one's team."""
        code = new_invite_code()
        command = ChangeTeamCode(caller.id, hash_secret(code))
        await self._decide(slug, caller, lambda _: command)
        team = (await self.state(slug)).team_of[caller.id]
        return api.ContestCode(code=code, team=team)

    async def change_captain(self, caller: Caller, slug: str, captain: str) -> DecisionResult:
        """Make another member the captain."""
        command = ChangeCaptain(caller.id, await self._account(captain))
        return await self._decide(slug, caller, lambda _: command)

    async def invite(
        self, caller: Caller, slug: str, people_max: int, expires_at: datetime | None
    ) -> api.ContestCode:
        """Create a code with which so many people may register; for organisers."""
        self._check_organises(caller, slug, await self.state(slug))
        code = new_invite_code()
        command = IssueContestInvite(hash_secret(code), people_max, expires_at)
        await self._decide(slug, caller, lambda _: command)
        return api.ContestCode(code=code, team="")

    async def moderate(
        self, caller: Caller, slug: str, act: str, subject: str, reason: str
    ) -> DecisionResult:
        """Question or accept a declaration, disqualify or restore; for organisers and moderators.

        `subject` is the id or the name of a team, or the account or the name of a person.
        """
        state = await self.state(slug)
        self._check_organises(caller, slug, state, or_moderates=True)
        command = Moderate(act, await self._subject(state, subject), reason)
        return await self._decide(slug, caller, lambda _: command)

    async def admit_finalists(
        self, caller: Caller, slug: str, contestants: Sequence[str], reason: str
    ) -> DecisionResult:
        """Admit contestants to the finals: these, or the first of each division; for organisers."""
        folded = await self._load(slug)
        state = folded.state
        self._check_organises(caller, slug, state)
        check_has_finalists(definition(slug, state))
        standing = await self._standing(slug, "qualifier", folded.seq)
        count = definition(slug, state).finalists
        first = [
            row.contestant for part in standing.divisions for row in part.rows if row.rank <= count
        ]
        named = [await self._find_contestant(state, name) for name in contestants]
        command = partial(AdmitFinalists, tuple(named or first), standing.as_of, reason)
        return await self._decide(slug, caller, command, folded.seq)

    async def propose_results(self, caller: Caller, slug: str) -> DecisionResult:
        """Announce the provisional results; for organisers."""
        folded = await self._load(slug)
        self._check_organises(caller, slug, folded.state)
        standing = await self._standing(slug, None, folded.seq)
        places = tuple(
            ContestPlace(
                contestant=row.contestant,
                division=part.division,
                place=row.rank,
                points=row.points,
            )
            for part in standing.divisions
            for row in part.rows
        )
        command = partial(ProposeResults, places, standing.as_of)
        return await self._decide(slug, caller, command, folded.seq)

    async def review(self, caller: Caller, slug: str, command: ReviewWinner) -> DecisionResult:
        """Decide an item of a winner's check list; for organisers and moderators."""
        state = await self.state(slug)
        self._check_organises(caller, slug, state, or_moderates=True)
        contestant = await self._find_contestant(state, command.contestant)
        decision = replace(command, contestant=contestant, name=command.contestant)
        return await self._decide(slug, caller, lambda _: decision)

    async def confirm_results(self, caller: Caller, slug: str) -> DecisionResult:
        """Make the provisional results final; for organisers."""
        folded = await self._load(slug)
        self._check_organises(caller, slug, folded.state)
        standing = await self._standing(slug, None, folded.seq)
        proposed = folded.state.proposed
        places = [] if proposed is None else proposed.places
        names = {row.contestant: row.name for part in standing.divisions for row in part.rows}
        names |= {
            place.contestant: await self._name_of(folded.state, place.contestant)
            for place in places
            if place.contestant not in names
        }
        outdated = find_outdated(places, standing.divisions, names) or ""
        command = partial(ConfirmResults, outdated=outdated, names=names)
        return await self._decide(slug, caller, command, folded.seq)

    async def _standing(self, slug: str, round_: str | None, version: int) -> ContestStanding:
        """Return the standing after the event with this sequence. Raises `Failed`."""
        for _ in range(STANDING_LOOKS_MAX):
            standing = await self.lookups.contest_standing(slug, round_)
            if standing.as_of >= version:
                return standing
            await asyncio.sleep(STANDING_PAUSE_S)
        raise Failed(f"the standing of {slug} is older than event {version}: try again")

    async def _find_contestant(self, state: ContestState, name: str) -> str:
        """Return the contestant of a name: a team, a person, or the team of a person."""
        contestant = state.contestant_of(await self._subject(state, name))
        if contestant not in state.people and contestant not in state.teams:
            message = f"{name} is not a contestant: `warpboard contest contestants` lists them"
            raise Refused("unknown_contestant", message, "contestant")
        return contestant

    async def _name_of(self, state: ContestState, contestant: str) -> str | None:
        team = state.teams.get(contestant)
        return team.name if team else await self.store.name_of(contestant)

    def _check_organises(
        self, caller: Caller, slug: str, state: ContestState, *, or_moderates: bool = False
    ) -> None:
        """Refuse a caller who is neither an organiser of the contest nor an operator.

        Nobody decides in a contest in which they take part.
        """
        definition(slug, state)
        check_unlimited(caller)
        takes_part = caller.account in state.people
        is_operator = caller.may("admin:problems") or (
            or_moderates and caller.may("admin:submissions")
        )
        if is_operator and not takes_part:
            return
        if takes_part or not state.is_organiser(caller.account):
            message = f"only organisers of {slug} and operators who take no part in it can do this"
            raise Refused("not_yours", message, "contest")
        check_scope(caller, ORGANISE)

    async def _load(self, slug: str) -> FoldedState[ContestState]:
        try:
            aggregate = subjects.contest(slug)
        except ValueError as error:
            raise unknown_contest(slug) from error
        return await self.histories.load(aggregate, ContestState(), fold_contest)

    async def _decide(
        self,
        slug: str,
        caller: Caller,
        command_at: Callable[[datetime], ContestCommand],
        version_read: int | None = None,
    ) -> DecisionResult:
        """Decide a command at the instant of its turn, which is that of its events.

        A command that was made from what is known at a version is decided at that version only.
        Requests to one contest wait for each other: a thousand people may register as soon as they
        can. The version of the contest in the log detects those of other processes.
        """
        async with self._turns.setdefault(slug, asyncio.Lock()):
            at = self.decisions.clock()
            return await self._decide_alone(slug, caller, at, command_at, version_read)

    async def _decide_alone(
        self,
        slug: str,
        caller: Caller,
        at: datetime,
        command_at: Callable[[datetime], ContestCommand],
        version_read: int | None,
    ) -> DecisionResult:
        appender = Appender(self.decisions.log, caller.actor, lambda: at)
        aggregate, command = subjects.contest(slug), command_at(at)
        for attempt in range(DECISIONS_MAX):
            state, version = await self._load(slug)
            for problem in definition(slug, state).problems:
                check_problem(caller, problem.slug)
            if version_read not in (None, version):
                raise Failed(f"{slug} changed during the decision: try again")
            facts = decide(command, state)
            if not facts:
                return DecisionResult(None, ())
            appends = [
                http_append(aggregate, fact, None if position else version, slug)
                for position, fact in enumerate(facts)
            ]
            try:
                return DecisionResult(await appender.append(*appends), facts)
            except Conflict:
                await back_off(attempt)
        raise Failed(f"{slug} changed {DECISIONS_MAX} times during the decision: try again")

    async def _organiser(self, index: int, name: str) -> str:
        account = await self.store.find_account(name)
        if account is None:
            message = f"there is no participant {name!r}: they must log in once"
            raise Refused("bad_contest", message, f"organisers.{index}")
        return self.feed.rights().account_of(account)

    async def _problem(
        self, caller: Caller, slug: str, index: int, problem: ContestProblem, before: ContestState
    ) -> ContestProblem:
        """Return a problem with the GPU type that counts. Raises `Refused`."""
        place = f"problems.{index}"
        state = await load_problem(problem.slug, self.histories.state)
        # After the contest another one may have taken it, whose sources are not this contest's.
        is_own = before.contest is not None and before.contest.problem(problem.slug) is not None
        if not (is_own and state.contest == slug) and not caller.may("admin:problems"):
            # Before anything is said about it, since its leaderboard may be closed.
            self.feed.rights().check_manages(caller, problem.slug)
        if state.published is None or state.is_archived:
            fault = "is archived" if state.is_archived else "is not published"
            message = f"the problem {problem.slug} {fault}: publish it before its contest"
            raise Refused("bad_contest", message, f"{place}.slug")
        author = self.feed.rights().author_of(problem.slug)
        if author in before.people:
            message = f"the author of {problem.slug} takes part in the contest"
            raise Refused("bad_contest", f"{message}: leave it out of the file", f"{place}.slug")
        await self._check_free(slug, problem.slug, state, place)
        gpus = state.open_gpus
        gpu = problem.gpu or (gpus[0] if len(gpus) == 1 else "")
        if problem.is_confirmed_fresh and not _draws_hidden_sizes(state.published):
            message = f"{problem.slug} has no hidden sizes, which confirm_fresh demands"
            hint = "declare hidden in its warpboard.yml, or remove confirm_fresh"
            raise Refused("bad_contest", f"{message}: {hint}", f"{place}.confirm_fresh")
        if gpu not in gpus:
            message = f"{problem.slug} is open on {', '.join(gpus)}: name one of them"
            raise Refused("bad_contest", message, f"{place}.gpu")
        return structs.replace(problem, gpu=gpu)

    async def _check_free(
        self, slug: str, problem: str, state: problems.Problem, place: str
    ) -> None:
        """Refuse a problem of another contest that is not in the archive."""
        if state.contest in ("", slug):
            return
        other = (await self._load(state.contest)).state.contest
        phase = phase_at(other, self.decisions.clock()) if other else None
        if other is not None and (phase is None or phase.kind != "archive"):
            message = f"{problem} belongs to the contest {state.contest}, which is not over"
            raise Refused("bad_contest", f"{message}: remove it there first", f"{place}.slug")

    async def _account(self, name: str) -> str:
        return await resolve_account(self.store, self.decisions.log, name)

    async def _subject(self, state: ContestState, name: str) -> str:
        """Return a team by id or name, or a person by account or name.

        Raises `Refused` for a name that a team shares with a person who takes part.
        """
        if name in state.teams or name in state.people:
            return name
        folded = fold_team_name(name)
        teams = (id_ for id_, team in state.teams.items() if fold_team_name(team.name) == folded)
        team = next(teams, None)
        if team is None:
            return await self._account(name)
        if await self.store.find_account(name) is not None:
            account = await self._account(name)
            if account in state.people:
                message = f"{name} is a team and a person: write the id, {team} or {account}"
                raise Refused("invalid_request", message, "contestant")
        return team


def _describe_members(accounts: Iterable[str], names: Mapping[str, str]) -> list[api.ContestMember]:
    return [
        api.ContestMember(participant_id=account, participant=names.get(account))
        for account in accounts
    ]


def _describe_contestant(
    state: ContestState, contestant: str, names: Mapping[str, str], is_full: bool
) -> api.Contestant:
    team, declaration = state.teams.get(contestant), state.declarations[contestant]
    members = _describe_members(state.members_of(contestant), names)
    reasons = [state.disqualification_of(member.participant_id) for member in members]
    # A disqualified member takes no further part; the rest of their team stays.
    is_out = all(reason is not None for reason in reasons)
    return api.Contestant(
        contestant=contestant,
        name=team.name if team else members[0].participant,
        is_team=team is not None,
        captain=team.captain if team else None,
        members=members,
        division=declaration.division,
        is_disqualified=is_out,
        declaration=dict(declaration.values) if is_full else None,
        doubt=declaration.doubt if is_full else None,
        disqualified=next(filter(None, reasons), "") if is_full else None,
    )


def _phase_balances(quota: PhaseQuota, at: datetime) -> list[Balance]:
    """Return what is left for each problem that is open in the phase."""
    contest = quota.contest
    scores = round_at(contest, at) is not None
    open_slugs = [
        entered.slug for entered in contest.problems if not scores or is_in_window(entered, at)
    ]
    categories = dict.fromkeys(CATEGORIES[mode] for mode in quota.phase.modes)
    buckets = [
        phase_bucket(slug, quota.phase_name, category)
        for slug in open_slugs
        for category in categories
    ]
    balances = (quota.balance(bucket, quota.uses) for bucket in buckets)
    return [balance for balance in balances if balance is not None]


def _contestants(state: ContestState) -> list[str]:
    return list(dict.fromkeys(map(state.contestant_of, state.people)))


def _summary(state: ContestState, contest: Contest, at: datetime) -> api.ContestSummary:
    phase, following = phase_at(contest, at), next_phase(contest, at)
    return api.ContestSummary(
        slug=contest.slug,
        title=contest.title,
        phase=phase.kind if phase else None,
        phase_ends_at=phase.ends_at if phase else None,
        next_phase=following.kind if following else None,
        next_phase_at=following.starts_at if following else None,
        people_count=len(state.people),
        problems=[problem.slug for problem in contest.problems],
    )


def _problem_commands(
    after: Contest, before: Contest | None, reason: str, at: datetime
) -> list[AggregateCommand]:
    """Return the commands by which problems enter and leave a contest, and get its deadlines."""
    changes = {
        problem.slug: Change(
            reason,
            has_deadline=True,
            deadline_at=problem.ends_at,
            contest=after.slug,
            is_forced=True,
            allows_untested=True,
            at=at,
        )
        for problem in after.problems
    }
    for problem in before.problems if before else ():
        left = Change(reason, contest="", allows_untested=True, at=at)
        changes.setdefault(problem.slug, left)
    return [
        AggregateCommand(subjects.problem(slug), problems.PROBLEM_DECIDER, change)
        for slug, change in changes.items()
    ]


def _draws_hidden_sizes(published: ProblemPublished) -> bool:
    """Return whether each ranked run of a version draws hidden sizes."""
    return any(published.cases_count.get(f"hidden_{group}") for group in GROUPS)
