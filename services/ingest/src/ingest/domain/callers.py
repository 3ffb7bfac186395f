"""Who asks, and what they may: scopes, roles, and the refusals that follow from them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shared.errors import Refused
from shared.events import SCOPES
from shared.reader import Reader

ADMIN = "admin"
PARTICIPANT_SCOPES = frozenset(
    (
        *("submit", "submit:ranked", "profile", "read:own", "delete:own"),
        *("join", "account", "webhooks"),
    )
)
CREATOR_SCOPES = PARTICIPANT_SCOPES | {"author"}
MODERATOR_SCOPES = CREATOR_SCOPES | {"admin:submissions", "admin:participants"}
STAFF_SCOPES = frozenset(SCOPES) - CREATOR_SCOPES
# What who is vouched for may not: be an operator, or make what outlives their visit.
NOT_VOUCHED = STAFF_SCOPES | {"account", "webhooks"}
# What an operator may whose role is vouched for, too: nothing that makes somebody mightier.
STAFF_VOUCHED = STAFF_SCOPES - {ADMIN}
ALLOWED: Mapping[str, frozenset[str]] = {
    "participant": PARTICIPANT_SCOPES,
    "creator": CREATOR_SCOPES,
    "moderator": MODERATOR_SCOPES,
    "admin": frozenset(SCOPES),
}
# What is left to who is banned: to see what they sent.
BANNED_SCOPES = frozenset({"read:own"})
SCOPE_OF_MODE = {
    "test": "submit",
    "benchmark": "submit",
    "profile": "profile",
    "ranked": "submit:ranked",
}


def allowed(roles: Iterable[str]) -> frozenset[str]:
    """The scopes that roles allow; everybody is a participant.

    >>> "author" in allowed([]), "author" in allowed(["creator"])
    (False, True)
    """
    return PARTICIPANT_SCOPES.union(*(ALLOWED.get(role, frozenset()) for role in roles))


def effective(scopes: Iterable[str], roles: Iterable[str]) -> frozenset[str]:
    """What a token with these scopes may, in the hands of who has these roles.

    >>> sorted(effective(["admin", "submit"], ["moderator"]))
    ['admin:participants', 'admin:submissions', 'submit']
    """
    wanted = frozenset(scopes)
    if ADMIN in wanted:
        wanted |= STAFF_SCOPES
    return wanted & allowed(roles)


@dataclass(frozen=True)
class Caller:
    """Who asks; `kind` is anonymous, token, local, discord or operator.

    `boards` are the closed leaderboards that they see, `owned` the problems they are the author of,
    `problems` those that their token is limited to; none is no limit. `wait_s` is for how long a
    ban still lasts, None if for ever.
    """

    account: str | None = None
    name: str = ""
    scopes: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    kind: str = "anonymous"
    token: str | None = None
    boards: frozenset[str] = frozenset()
    problems: frozenset[str] = frozenset()
    owned: frozenset[str] = frozenset()
    ban: str | None = None
    wait_s: float | None = None

    @property
    def actor(self) -> str:
        """Who acts, as events say it."""
        assert self.kind != "anonymous", "nobody does nothing"
        return f"operator:{self.name}" if self.account is None else f"account:{self.account}"

    @property
    def is_staff(self) -> bool:
        """Whether they see what is closed."""
        return bool(self.scopes & STAFF_SCOPES)

    @property
    def keeps_tokens(self) -> bool:
        """Whether they may look after their own tokens; on Discord none is made, but ended."""
        return self.may("account") or (self.kind == "discord" and self.ban is None)

    @property
    def id(self) -> str:
        """The account of a participant. Errors: Refused `missing_credential` for an operator."""
        if self.account is None:
            what = "this is done as a participant: send a participant's token"
            raise Refused("missing_credential", what, "authorization")
        return self.account

    @property
    def reader(self) -> Reader:
        """Who reads, as ranker is told; without the scope for one's own one reads as anybody."""
        boards = self.boards & self.problems if self.problems else self.boards
        owned = self.owned & self.problems if self.problems else self.owned
        account = self.account if self.may("read:own") else None
        return Reader(
            account=account,
            is_staff=self.is_staff,
            boards=sorted(boards),
            problems=sorted(self.problems),
            owned=[] if account is None else sorted(owned),
        )

    def may(self, scope: str) -> bool:
        """Whether they may do what needs this scope."""
        return scope in self.scopes


ANONYMOUS = Caller()


def check_scope(caller: Caller, scope: str) -> None:
    """Refuse who may not do what needs a scope: the banned, with the reason, and others."""
    if caller.may(scope):
        return
    if caller.ban is not None:
        raise Refused("user_banned", caller.ban, retry_after_s=caller.wait_s)
    what = f"this needs the scope {scope}, which your token or your role does not give"
    raise Refused("scope_missing", what)


def check_problem(caller: Caller, slug: str) -> None:
    """Refuse what a token that is limited to other problems asks for."""
    if caller.problems and slug not in caller.problems:
        what = f"this token is for {', '.join(sorted(caller.problems))} alone"
        raise Refused("scope_missing", what, "problem")


def check_unlimited(caller: Caller) -> None:
    """Refuse who has a token for some problems alone what is about all of an account."""
    if caller.problems:
        what = "your token is limited to some problems: log in on the web page to do this"
        raise Refused("scope_missing", what)
