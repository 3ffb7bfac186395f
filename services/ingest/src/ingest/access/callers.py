"""Callers: who sends a request, and which scopes and roles they have."""

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
# Callers through the Discord bot get no operator scopes and create nothing that outlives the visit.
NOT_VOUCHED = STAFF_SCOPES | {"account", "webhooks"}
# Operators through the Discord bot keep these scopes: none that gives anybody more rights.
STAFF_VOUCHED = STAFF_SCOPES - {ADMIN}
ALLOWED: Mapping[str, frozenset[str]] = {
    "participant": PARTICIPANT_SCOPES,
    "creator": CREATOR_SCOPES,
    "moderator": MODERATOR_SCOPES,
    "admin": frozenset(SCOPES),
}
# Banned participants may still read their own submissions.
BANNED_SCOPES = frozenset({"read:own"})
SCOPE_OF_MODE = {
    "test": "submit",
    "benchmark": "submit",
    "profile": "profile",
    "ranked": "submit:ranked",
}


def allowed_scopes(roles: Iterable[str]) -> frozenset[str]:
    """Return the scopes that roles allow; everybody is a participant.

    >>> "author" in allowed_scopes([]), "author" in allowed_scopes(["creator"])
    (False, True)
    """
    return PARTICIPANT_SCOPES.union(*(ALLOWED.get(role, frozenset()) for role in roles))


def effective_scopes(scopes: Iterable[str], roles: Iterable[str]) -> frozenset[str]:
    """Return the scopes of a token for an account with these roles.

    >>> sorted(effective_scopes(["admin", "submit"], ["moderator"]))
    ['admin:participants', 'admin:submissions', 'submit']
    """
    token_scopes = frozenset(scopes)
    if ADMIN in token_scopes:
        token_scopes |= STAFF_SCOPES
    return token_scopes & allowed_scopes(roles)


@dataclass(frozen=True)
class Caller:
    """Who sends a request; `kind` is anonymous, token, local, discord or operator.

    `boards` are the closed leaderboards they may see, `owned` the problems they wrote, `problems`
    the ones their token is limited to (empty: no limit). `wait_s` is how long a ban still lasts,
    None if for ever.
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
        """Return the actor for events."""
        assert self.kind != "anonymous", "an anonymous caller never acts"
        return f"operator:{self.name}" if self.account is None else f"account:{self.account}"

    @property
    def is_staff(self) -> bool:
        """Return whether they may see closed leaderboards."""
        return bool(self.scopes & STAFF_SCOPES)

    @property
    def keeps_tokens(self) -> bool:
        """Return whether they may list and revoke their own tokens; on Discord they may, too."""
        return self.may("account") or (self.kind == "discord" and self.ban is None)

    @property
    def id(self) -> str:
        """Return the account of a participant. Raises `Refused` for an operator without one."""
        if self.account is None:
            message = "only participants can do this: send the token of a participant"
            raise Refused("missing_credential", message, "authorization")
        return self.account

    @property
    def reader(self) -> Reader:
        """Return the reader for ranker; without the scope `read:own` they read as the public."""
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
        """Return whether they have a scope."""
        return scope in self.scopes


ANONYMOUS = Caller()


def check_scope(caller: Caller, scope: str) -> None:
    """Refuse a caller without a scope; a banned caller gets the reason of the ban."""
    if caller.may(scope):
        return
    if caller.ban is not None:
        raise Refused("user_banned", caller.ban, retry_after_s=caller.wait_s)
    message = f"this needs the scope {scope}, which your token or your role does not give"
    raise Refused("scope_missing", message)


def check_problem(caller: Caller, slug: str) -> None:
    """Refuse a caller whose token is limited to other problems."""
    if caller.problems and slug not in caller.problems:
        message = f"this token is limited to {', '.join(sorted(caller.problems))}"
        raise Refused("scope_missing", message, "problem")


def check_unlimited(caller: Caller) -> None:
    """Refuse a caller whose token is limited to some problems."""
    if caller.problems:
        message = "your token is limited to some problems: log in on the web page for this"
        raise Refused("scope_missing", message)
