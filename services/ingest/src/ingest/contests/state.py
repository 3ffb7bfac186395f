"""Contests as their histories tell: the definition, the people, their teams and declarations.

A contestant is a person or a team, named by the account or the team. A person without a team
competes alone.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeVar

from shared import events
from shared.contests.definition import Contest
from shared.errors import Refused

Value = TypeVar("Value")


@dataclass(frozen=True)
class Team:
    """A team; members are in the order in which they came."""

    name: str
    captain: str
    code_hash: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class Declaration:
    """The division and the declaration of a contestant; `doubt` is why it is questioned."""

    division: str
    values: Mapping[str, str] = field(default_factory=dict)
    doubt: str = ""


@dataclass(frozen=True)
class ContestState:
    """The state of a contest; without a definition it was never published.

    `reviews` say whether an item of a winner's check list passed, by contestant and item.
    `people` maps those who are registered to the digest of the terms that they accepted. `teams`
    are by id, `team_of` by member, and `teams_ever` has all teams that a person was in.
    `disqualified` has the reasons by person or team. `organisers` are all that any version named.
    """

    contest: Contest | None = None
    number: int = 0
    organisers: frozenset[str] = frozenset()
    people: Mapping[str, str] = field(default_factory=dict)
    teams: Mapping[str, Team] = field(default_factory=dict)
    team_of: Mapping[str, str] = field(default_factory=dict)
    teams_ever: Mapping[str, frozenset[str]] = field(default_factory=dict)
    declarations: Mapping[str, Declaration] = field(default_factory=dict)
    disqualified: Mapping[str, str] = field(default_factory=dict)
    invites: Mapping[str, events.ContestInviteIssued] = field(default_factory=dict)
    invited: Mapping[str, str] = field(default_factory=dict)
    finalists: frozenset[str] = frozenset()
    proposed: events.ContestResultsProposed | None = None
    is_final: bool = False
    reviews: Mapping[tuple[str, str], bool] = field(default_factory=dict)

    def contestant_of(self, account: str) -> str:
        """Return the contestant that a person is, or is a member of."""
        return self.team_of.get(account, account)

    def members_of(self, contestant: str) -> tuple[str, ...]:
        """Return the people of a contestant, none if there is no such contestant."""
        if contestant in self.teams:
            return self.teams[contestant].members
        is_alone = contestant in self.people and contestant not in self.team_of
        return (contestant,) if is_alone else ()

    def earlier_contestants(self, contestant: str) -> list[frozenset[str]]:
        """Return which other contestants each member of a contestant was or was in before."""
        return [
            self.teams_ever.get(member, frozenset()).union([member]) - {contestant}
            for member in self.members_of(contestant)
        ]

    def disqualification_of(self, account: str) -> str | None:
        """Return why a person, or their team, is disqualified; None if they are not."""
        own = self.disqualified.get(account)
        return own if own is not None else self.disqualified.get(self.contestant_of(account))

    def binds(self, account: str) -> bool:
        """Return whether an account takes part in this contest, runs it or is disqualified."""
        return account in self.people or account in self.disqualified or self.is_organiser(account)

    def is_organiser(self, account: str | None) -> bool:
        """Return whether an account may run this contest."""
        return self.contest is not None and account in self.contest.organisers


def unknown_contest(slug: str) -> Refused:
    """Return the refusal for a contest that does not exist."""
    message = f"there is no contest {slug!r}: `warpboard contest list` lists them"
    return Refused("unknown_contest", message, "contest")


def definition(slug: str, state: ContestState) -> Contest:
    """Return the definition of a contest. Raises `Refused` (`unknown_contest`)."""
    if state.contest is None:
        raise unknown_contest(slug)
    return state.contest


def fold_contest(state: ContestState, facts: Iterable[events.Fact]) -> ContestState:
    """Return the contest after these events."""
    return reduce(evolve, facts, state)


def evolve(state: ContestState, fact: events.Fact) -> ContestState:
    """Return the contest after one more event."""
    handler = _HANDLERS.get(type(fact))
    return state if handler is None else handler(state, fact)


def _on_published(state: ContestState, fact: events.ContestPublished) -> ContestState:
    organisers = state.organisers.union(fact.contest.organisers)
    return replace(state, contest=fact.contest, number=fact.number, organisers=organisers)


def _on_invite_issued(state: ContestState, fact: events.ContestInviteIssued) -> ContestState:
    return replace(state, invites={**state.invites, fact.code_hash: fact})


def _on_registered(state: ContestState, fact: events.ContestRegistered) -> ContestState:
    declaration = Declaration(fact.division, fact.declaration)
    state = replace(
        state,
        people={**state.people, fact.account: fact.terms_digest},
        declarations={**state.declarations, fact.account: declaration},
    )
    if fact.code_hash:
        state = replace(state, invited={**state.invited, fact.account: fact.code_hash})
    return state


def _on_withdrawn(state: ContestState, fact: events.ContestRegistrationWithdrawn) -> ContestState:
    return replace(state, people=_without(state.people, fact.account))


def _on_disqualified(state: ContestState, fact: events.ContestDisqualified) -> ContestState:
    return replace(state, disqualified={**state.disqualified, fact.subject: fact.reason})


def _on_restored(state: ContestState, fact: events.ContestRestored) -> ContestState:
    return replace(state, disqualified=_without(state.disqualified, fact.subject))


def _on_finalists(state: ContestState, fact: events.ContestFinalistsAdmitted) -> ContestState:
    return replace(state, finalists=frozenset(fact.contestants))


def _on_proposed(state: ContestState, fact: events.ContestResultsProposed) -> ContestState:
    return replace(state, proposed=fact, is_final=False)


def _on_confirmed(state: ContestState, _fact: events.ContestResultsConfirmed) -> ContestState:
    return replace(state, is_final=True)


def _on_reviewed(state: ContestState, fact: events.ContestReviewed) -> ContestState:
    reviews = {**state.reviews, (fact.contestant, fact.item): fact.is_passed}
    return replace(state, reviews=reviews)


def _on_declared(state: ContestState, fact: events.ContestDeclared) -> ContestState:
    declaration = Declaration(fact.division, fact.declaration)
    return _with_declaration(state, fact.contestant, declaration)


def _on_questioned(state: ContestState, fact: events.ContestDeclarationQuestioned) -> ContestState:
    declaration = replace(state.declarations[fact.contestant], doubt=fact.reason)
    return _with_declaration(state, fact.contestant, declaration)


def _on_accepted(state: ContestState, fact: events.ContestDeclarationAccepted) -> ContestState:
    declaration = replace(state.declarations[fact.contestant], doubt="")
    return _with_declaration(state, fact.contestant, declaration)


def _on_team_created(state: ContestState, fact: events.ContestTeamCreated) -> ContestState:
    # The team begins with the division and the declaration of its captain.
    state = _with_declaration(state, fact.team, state.declarations[fact.captain])
    team = Team(fact.name, fact.captain, fact.code_hash, (fact.captain,))
    return _with_team(state, fact.team, team)


def _on_team_code_changed(state: ContestState, fact: events.ContestTeamCodeChanged) -> ContestState:
    team = replace(state.teams[fact.team], code_hash=fact.code_hash)
    return _with_team(state, fact.team, team)


def _on_team_joined(state: ContestState, fact: events.ContestTeamJoined) -> ContestState:
    team = state.teams[fact.team]
    team = replace(team, members=(*team.members, fact.account))
    return _with_team(state, fact.team, team)


def _on_team_left(state: ContestState, fact: events.ContestTeamLeft) -> ContestState:
    team = state.teams[fact.team]
    members = tuple(member for member in team.members if member != fact.account)
    state = replace(state, team_of=_without(state.team_of, fact.account))
    if members:
        return _with_team(state, fact.team, replace(team, members=members))
    # Its declaration stays, for its submissions stay.
    return replace(state, teams=_without(state.teams, fact.team))


def _on_captain_changed(state: ContestState, fact: events.ContestCaptainChanged) -> ContestState:
    return _with_team(state, fact.team, replace(state.teams[fact.team], captain=fact.captain))


def _with_declaration(
    state: ContestState, contestant: str, declaration: Declaration
) -> ContestState:
    return replace(state, declarations={**state.declarations, contestant: declaration})


def _with_team(state: ContestState, team_id: str, team: Team) -> ContestState:
    team_of = {**state.team_of, **dict.fromkeys(team.members, team_id)}
    teams_ever = {
        **state.teams_ever,
        **{it: state.teams_ever.get(it, frozenset()) | {team_id} for it in team.members},
    }
    teams = {**state.teams, team_id: team}
    return replace(state, teams=teams, team_of=team_of, teams_ever=teams_ever)


def _without(values: Mapping[str, Value], key: str) -> Mapping[str, Value]:
    return {name: value for name, value in values.items() if name != key}


_HANDLERS: dict[type[events.Fact], Callable[[ContestState, Any], ContestState]] = {
    events.ContestPublished: _on_published,
    events.ContestInviteIssued: _on_invite_issued,
    events.ContestRegistered: _on_registered,
    events.ContestRegistrationWithdrawn: _on_withdrawn,
    events.ContestDisqualified: _on_disqualified,
    events.ContestRestored: _on_restored,
    events.ContestFinalistsAdmitted: _on_finalists,
    events.ContestResultsProposed: _on_proposed,
    events.ContestResultsConfirmed: _on_confirmed,
    events.ContestReviewed: _on_reviewed,
    events.ContestDeclared: _on_declared,
    events.ContestDeclarationQuestioned: _on_questioned,
    events.ContestDeclarationAccepted: _on_accepted,
    events.ContestTeamCreated: _on_team_created,
    events.ContestTeamCodeChanged: _on_team_code_changed,
    events.ContestTeamJoined: _on_team_joined,
    events.ContestTeamLeft: _on_team_left,
    events.ContestCaptainChanged: _on_captain_changed,
}
