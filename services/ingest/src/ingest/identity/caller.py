"""Who sends a request, and what they may do."""

from collections.abc import Iterable
from dataclasses import dataclass

from ingest.identity.scopes import STAFF_SCOPES
from shared.errors import Refused, did_you_mean
from shared.reader import Reader

ACCOUNT_ACTOR = "account:"


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
        return f"operator:{self.name}" if self.account is None else account_actor(self.account)

    @property
    def is_staff(self) -> bool:
        """Return whether they may see closed leaderboards."""
        return bool(self.scopes & STAFF_SCOPES)

    @property
    def manages_tokens(self) -> bool:
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


def account_actor(account: str) -> str:
    """Return the actor for events of a participant."""
    return f"{ACCOUNT_ACTOR}{account}"


def acting_account(actor: str) -> str | None:
    """Return the account of an actor; None for an operator without one.

    >>> acting_account("account:ada"), acting_account("operator:olga")
    ('ada', None)
    """
    return actor.removeprefix(ACCOUNT_ACTOR) if actor.startswith(ACCOUNT_ACTOR) else None


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


def unknown_leaderboard(slug: str, known: Iterable[str] = ()) -> Refused:
    """Return the refusal for a leaderboard that does not exist for the caller.

    `known` are those that everybody may see: the most similar one is suggested.
    """
    suggestion = did_you_mean(slug, known) or "."
    how = "`warpboard problem list` and GET /v1/problems list them"
    message = f"there is no leaderboard {slug!r}{suggestion} {how}"
    return Refused("unknown_leaderboard", message, "problem")
