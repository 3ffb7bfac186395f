"""Contests: who may change and enter them."""

import hmac
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ingest.contests import results
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
from ingest.contests.state import ContestState, Team, definition, evolve, unknown_contest
from shared import events
from shared.contests.definition import (
    Contest,
    ContestProblem,
    Division,
    find_moved_times,
    has_closed,
    is_registration_open,
    may_change_team,
)
from shared.errors import Refused, did_you_mean
from shared.event_log import Decider

DECLARATION_CHARS_MAX = 500
# The fields of a problem that has begun that stay as they are.
KEPT_OF_PROBLEMS = ("round", "starts_at", "gpu", "weight", "scoring")
TEAM_NAME_TAKEN = "another team has this name"


def decide(command: ContestCommand, state: ContestState) -> Sequence[events.ContestFact]:
    """Return the events; nothing if nothing changes. Raises `Refused`."""
    return _DECISIONS[type(command)](command, state)


def _publish(command: PublishContest, state: ContestState) -> Sequence[events.ContestFact]:
    contest, before = command.contest, state.contest
    if before is None and command.is_update:
        raise unknown_contest(contest.slug)
    if before is not None and not command.is_update:
        message = f"there is a contest {contest.slug} already: choose another slug, or update it"
        raise Refused("wrong_state", message, "slug")
    if contest == before:
        return ()
    moved = find_moved_times(before, contest) if before is not None else []
    if before is not None:
        _check_update(before, contest, state, command.at)
        _check_begun(before, contest, state, command.at)
    published = events.ContestPublished(
        number=state.number + 1, contest=contest, moved=moved, reason=command.reason
    )
    return (published,)


def _check_update(before: Contest, after: Contest, state: ContestState, at: datetime) -> None:
    """Refuse what would change results that exist already, or the place of people."""
    for problem in before.problems:
        if problem.starts_at <= at and after.problem(problem.slug) is None:
            message = f"{problem.slug} takes submissions already, so it cannot leave the contest"
            raise Refused("wrong_state", f"{message}: leave it in the file", "problems")
    used = {entry.division for entry in state.declarations.values()}
    if missing := sorted(used - {division.slug for division in after.divisions}):
        message = f"the division {missing[0]} has contestants: leave it in the file"
        raise Refused("wrong_state", message, "divisions")
    largest = max((len(team.members) for team in state.teams.values()), default=1)
    if after.teams.size_max < largest:
        message = f"a team has {largest} members already: write at least {largest}"
        raise Refused("wrong_state", message, "teams.size_max")
    for index, account in enumerate(after.organisers):
        if account in state.people:
            message = "this organiser takes part in the contest: leave them out of the file"
            raise Refused("wrong_state", message, f"organisers.{index}")


def _check_begun(before: Contest, after: Contest, state: ContestState, at: datetime) -> None:
    """Refuse what would change points and places of what was submitted already."""
    begun = {problem.slug: problem for problem in before.problems if problem.starts_at <= at}
    _check_kept("the contest", before, after, ("ties", "best_of") if begun else ())
    for index, problem in enumerate(after.problems):
        earlier, place = begun.get(problem.slug), f"problems.{index}."
        if earlier is None:
            continue
        _check_kept(problem.slug, earlier, problem, KEPT_OF_PROBLEMS, place)
        if problem.ends_at != earlier.ends_at and problem.ends_at <= at:
            message = f"what {problem.slug} took until now would no longer count: write a later end"
            raise Refused("wrong_state", message, f"{place}ends")
    if state.proposed is not None:
        _check_kept("the contest with results", before, after, ("podium",))
        for index, problem in enumerate(after.problems):
            earlier = begun.get(problem.slug, problem)
            of = f"{problem.slug}, which has results,"
            _check_kept(of, earlier, problem, ("ends_at",), f"problems.{index}.")


def _check_kept(
    of: str,
    before: Contest | ContestProblem,
    after: Contest | ContestProblem,
    keys: Sequence[str],
    place: str = "",
) -> None:
    """Refuse other values of these fields, since submissions were taken by the earlier ones."""
    for key in keys:
        if getattr(after, key) != getattr(before, key):
            name = key.removesuffix("_at")
            message = f"{of} takes or took submissions, so {name} cannot change: leave it as it was"
            raise Refused("wrong_state", message, f"{place}{name}")


def _issue_invite(command: IssueContestInvite, state: ContestState) -> Sequence[events.ContestFact]:
    if state.contest is None or not state.contest.is_invite_only:
        message = "everybody may register for this contest: write invite_only: true in its file"
        raise Refused("wrong_state", message, "contest")
    return (
        events.ContestInviteIssued(
            code_hash=command.code_hash,
            people_max=command.people_max,
            expires_at=command.expires_at,
        ),
    )


def _register(command: Register, state: ContestState) -> Sequence[events.ContestFact]:
    contest = definition("", state)
    if command.account in state.people:
        message = "you are registered already: change your declaration, or withdraw first"
        raise Refused("already_registered", message)
    _check_registration_open(contest, command.at)
    check_not_disqualified(command.account, state)
    if command.account in state.organisers:
        message = "you organise this contest, or did before, so you cannot take part in it"
        raise Refused("wrong_state", message)
    if command.terms_digest != contest.terms_digest:
        message = "the terms have changed, or were not read: read them and accept their digest"
        raise Refused("terms_not_accepted", f"{message} {contest.terms_digest}", "terms_digest")
    if contest.is_invite_only:
        _check_invite(command, state)
    declaration = _check_declaration(contest, command.division, command.declaration)
    return (
        events.ContestRegistered(
            account=command.account,
            division=command.division,
            terms_digest=command.terms_digest,
            declaration=declaration,
            code_hash=command.code_hash if contest.is_invite_only else "",
        ),
    )


def _check_registration_open(contest: Contest, at: datetime) -> None:
    if is_registration_open(contest, at):
        return
    if at < contest.starts_at:
        message = f"the registration opens at {contest.starts_at.isoformat()}"
    else:
        message = f"the registration closed at {contest.register_until_at.isoformat()}"
    raise Refused("contest_closed", message)


def check_not_disqualified(account: str, state: ContestState) -> None:
    """Refuse a person who, or whose team, is disqualified."""
    reason = state.disqualification_of(account)
    if reason is not None:
        message = f"you are disqualified from this contest: {reason}; ask its organisers"
        raise Refused("disqualified", message)


def _check_invite(command: Register, state: ContestState) -> None:
    invite = _find_code(command.code_hash, state.invites)
    if invite is None:
        message = "this contest is by invitation: send the code that its organisers gave you"
        raise Refused("invalid_invite", message, "code")
    issued = state.invites[invite]
    if issued.expires_at is not None and command.at >= issued.expires_at:
        message = f"this code ended at {issued.expires_at.isoformat()}: ask for another one"
        raise Refused("invite_expired", message, "code")
    # Whoever withdraws may come back with the same code.
    users = {account for account, code in state.invited.items() if code == invite}
    if command.account not in users and len(users) >= issued.people_max:
        message = f"{issued.people_max} people have used this code: ask for another one"
        raise Refused("invite_claimed", message, "code")


def _find_code(code_hash: str, known: Mapping[str, object]) -> str | None:
    """Return the known hash that equals this one, compared in constant time."""
    return next((known_hash for known_hash in known if _is_same(known_hash, code_hash)), None)


def _is_same(known_hash: str, code_hash: str) -> bool:
    return hmac.compare_digest(known_hash.encode(), code_hash.encode())


def _check_declaration(
    contest: Contest, slug: str, declaration: Mapping[str, str]
) -> dict[str, str]:
    """Return what a division demands, and nothing else. Raises `Refused`."""
    division = contest.division(slug)
    if division is None:
        known = [known_division.slug for known_division in contest.divisions]
        suggestion = did_you_mean(slug, known) or f": there are {', '.join(known)}"
        raise Refused("invalid_request", f"there is no division {slug!r}{suggestion}", "division")
    return _check_values(division, declaration)


def _check_values(division: Division, declaration: Mapping[str, str]) -> dict[str, str]:
    for name in division.declare:
        if not declaration.get(name, "").strip():
            message = f"the division {division.slug} demands that you declare {name!r}: write it"
            raise Refused("invalid_request", message, f"declaration.{name}")
    for name, value in declaration.items():
        if name not in division.declare:
            demands = ", ".join(division.declare) or "nothing"
            message = f"the division {division.slug} demands {demands}, not {name!r}: leave it out"
            raise Refused("invalid_request", message, f"declaration.{name}")
        if len(value) > DECLARATION_CHARS_MAX:
            message = f"{name} has {len(value)} characters: write at most {DECLARATION_CHARS_MAX}"
            raise Refused("invalid_request", message, f"declaration.{name}")
    return {name: declaration[name].strip() for name in division.declare}


def _check_registered(account: str, state: ContestState) -> None:
    if account not in state.people:
        raise Refused("not_registered", "you are not registered for this contest: register first")


def _withdraw(command: WithdrawRegistration, state: ContestState) -> Sequence[events.ContestFact]:
    contest, account = definition("", state), command.account
    _check_registered(account, state)
    check_not_disqualified(account, state)
    leaves = _leave(account, state) if account in state.team_of else []
    can_leave = may_change_team(contest, command.at)
    if leaves and not can_leave:
        message = "teams can no longer change, so you cannot withdraw: ask the organisers"
        raise Refused("contest_closed", message)
    if not can_leave and command.at >= contest.register_until_at:
        # Whoever left afterwards would move the places of others.
        message = f"one could withdraw until {contest.register_until_at.isoformat()}"
        raise Refused("contest_closed", f"{message}: ask the organisers")
    return (*leaves, events.ContestRegistrationWithdrawn(account=account))


def _declare(command: Declare, state: ContestState) -> Sequence[events.ContestFact]:
    contest, account = definition("", state), command.account
    _check_registered(account, state)
    contestant = state.contestant_of(account)
    if contestant in state.teams:
        _check_captain(account, state.teams[contestant])
    values = _check_declaration(contest, command.division, command.declaration)
    before = state.declarations[contestant]
    if command.division != before.division and command.at >= contest.register_until_at:
        message = "divisions can no longer be changed since the registration closed"
        raise Refused("contest_closed", message, "division")
    if (command.division, values) == (before.division, before.values):
        return ()
    if has_closed(contest, command.at) and not before.doubt:
        message = f"{contest.title} has closed: declarations change only when they are questioned"
        raise Refused("contest_closed", message, "declaration")
    return (
        events.ContestDeclared(
            contestant=contestant, division=command.division, declaration=values
        ),
    )


def _moderate(command: Moderate, state: ContestState) -> Sequence[events.ContestFact]:
    subject, reason = command.subject, command.reason
    # Those who withdrew have declared something, too, and may register again.
    if subject not in state.declarations:
        message = f"{subject} is neither a team nor a participant of this contest"
        raise Refused("unknown_contestant", message, "contestant")
    match command.act:
        case "disqualify":
            fact = events.ContestDisqualified(subject=subject, reason=reason)
            return () if subject in state.disqualified else (fact,)
        case "restore":
            restored = events.ContestRestored(subject=subject, reason=reason)
            return (restored,) if subject in state.disqualified else ()
    contestant = state.contestant_of(subject)
    if command.act == "question":
        return (events.ContestDeclarationQuestioned(contestant=contestant, reason=reason),)
    accepted = events.ContestDeclarationAccepted(contestant=contestant, reason=reason)
    return (accepted,) if state.declarations[contestant].doubt else ()


def _own_team(account: str, state: ContestState) -> tuple[str, Team]:
    """Return the team of a participant. Raises `Refused`."""
    _check_registered(account, state)
    check_not_disqualified(account, state)
    team_id = state.team_of.get(account)
    if team_id is None:
        raise Refused("wrong_state", "you are in no team of this contest")
    return team_id, state.teams[team_id]


def _leave_team(command: LeaveTeam, state: ContestState) -> Sequence[events.ContestFact]:
    _, team = _own_team(command.account, state)
    _check_team_open(definition("", state), command.at)
    if command.member != command.account:
        _check_captain(command.account, team)
        _check_member(command.member, team)
    return _leave(command.member, state)


def _change_code(command: ChangeTeamCode, state: ContestState) -> Sequence[events.ContestFact]:
    team_id, team = _own_team(command.account, state)
    _check_captain(command.account, team)
    return (events.ContestTeamCodeChanged(team=team_id, code_hash=command.code_hash),)


def _change_captain(command: ChangeCaptain, state: ContestState) -> Sequence[events.ContestFact]:
    team_id, team = _own_team(command.account, state)
    _check_captain(command.account, team)
    _check_member(command.captain, team)
    changed = events.ContestCaptainChanged(team=team_id, captain=command.captain)
    return () if command.captain == team.captain else (changed,)


def _check_team_open(contest: Contest, at: datetime) -> None:
    if contest.teams.size_max == 1:
        raise Refused("wrong_state", "this contest is for individuals: it has no teams")
    if not may_change_team(contest, at):
        until_at = contest.teams.changes_until_at or contest.register_until_at
        message = f"teams could change until {until_at.isoformat()}"
        raise Refused("contest_closed", message)


def _check_captain(account: str, team: Team) -> None:
    if account != team.captain:
        raise Refused("not_yours", "only the captain of the team can do this: ask them")


def _check_member(account: str, team: Team) -> None:
    if account not in team.members:
        raise Refused("unknown_participant", "this person is not in your team", "participant")


def _check_alone(account: str, state: ContestState) -> None:
    if account in state.team_of:
        raise Refused("wrong_state", "you are in a team of this contest: leave it first")


def fold_team_name(name: str) -> str:
    r"""Return what names of teams share that look the same.

    >>> fold_team_name("Duo\u200b") == fold_team_name("\uff24UO")
    True
    """
    normal = unicodedata.normalize("NFKC", name)
    return "".join(it for it in normal if unicodedata.category(it) != "Cf").casefold()


def _create_team(command: CreateTeam, state: ContestState) -> Sequence[events.ContestFact]:
    _check_registered(command.account, state)
    check_not_disqualified(command.account, state)
    _check_team_open(definition("", state), command.at)
    _check_alone(command.account, state)
    folded = fold_team_name(command.name)
    if any(fold_team_name(team.name) == folded for team in state.teams.values()):
        raise Refused("name_taken", f"{TEAM_NAME_TAKEN}: choose another one", "name")
    return (
        events.ContestTeamCreated(
            team=command.team,
            name=command.name,
            captain=command.account,
            code_hash=command.code_hash,
        ),
    )


def _join_team(command: JoinTeam, state: ContestState) -> Sequence[events.ContestFact]:
    contest = definition("", state)
    _check_registered(command.account, state)
    check_not_disqualified(command.account, state)
    teams = {team.code_hash: team_id for team_id, team in state.teams.items()}
    code = _find_code(command.code_hash, teams)
    if code is None:
        message = "no team of this contest has this code: ask its captain"
        raise Refused("invalid_invite", message, "code")
    team_id = teams[code]
    if state.team_of.get(command.account) == team_id:
        return ()
    _check_team_open(contest, command.at)
    _check_alone(command.account, state)
    team = state.teams[team_id]
    if team_id in state.disqualified:
        raise Refused("disqualified", f"the team {team.name} is disqualified")
    division = state.declarations[team_id].division
    is_other = division != state.declarations[command.account].division
    if is_other and command.at >= contest.register_until_at:
        message = f"the team {team.name} is in the division {division}, and divisions can no longer"
        raise Refused("contest_closed", f"{message} be changed since the registration closed")
    if len(team.members) >= contest.teams.size_max:
        message = f"the team {team.name} has {len(team.members)} members, which is the limit"
        raise Refused("team_full", f"{message}: ask its captain, or join another one")
    return (events.ContestTeamJoined(team=team_id, account=command.account),)


def _leave(account: str, state: ContestState) -> list[events.ContestFact]:
    """Return that a person leaves their team, which gets another captain if it needs one."""
    team_id = state.team_of[account]
    team = state.teams[team_id]
    others = [member for member in team.members if member != account]
    left: list[events.ContestFact] = [events.ContestTeamLeft(team=team_id, account=account)]
    if others and team.captain == account:
        left.append(events.ContestCaptainChanged(team=team_id, captain=others[0]))
    return left


_DECISIONS: dict[type[Any], Callable[[Any, ContestState], Sequence[events.ContestFact]]] = {
    PublishContest: _publish,
    IssueContestInvite: _issue_invite,
    Register: _register,
    WithdrawRegistration: _withdraw,
    Declare: _declare,
    Moderate: _moderate,
    AdmitFinalists: results.admit_finalists,
    ProposeResults: results.propose_results,
    ReviewWinner: results.review_winner,
    ConfirmResults: results.confirm_results,
    CreateTeam: _create_team,
    JoinTeam: _join_team,
    LeaveTeam: _leave_team,
    ChangeTeamCode: _change_code,
    ChangeCaptain: _change_captain,
}
CONTEST_DECIDER = Decider[ContestCommand, ContestState, events.Fact](ContestState(), decide, evolve)
