"""What scopes and instants are called on a page."""

from datetime import datetime

SCOPE_WORDS = {
    "submit": "submit tests and benchmarks",
    "submit:ranked": "submit for the leaderboards",
    "profile": "profile kernels",
    "read:own": "read what you submitted",
    "delete:own": "withdraw and delete what you submitted",
    "join": "join closed leaderboards with an invite",
    "account": "manage your account and its tokens",
    "webhooks": "manage your webhooks",
    "author": "publish problems as you",
    "admin:submissions": "decide about everybody's submissions",
    "admin:participants": "ban participants and change their quotas",
    "admin:problems": "change everybody's problems and leaderboards",
    "admin:operate": "operate the platform",
    "admin": "do everything that an operator may",
}
TITLES = {"web": "Name and password", "github": "GitHub", "discord": "Discord"}
GRAVE = frozenset(
    (
        "account",
        "admin",
        "admin:submissions",
        "admin:participants",
        "admin:problems",
        "admin:operate",
    )
)


def title_of(provider: str) -> str:
    """A way to log in as a person knows it."""
    return TITLES.get(provider, provider)


def in_words(scope: str) -> str:
    """A scope as a person reads it."""
    return SCOPE_WORDS.get(scope, scope)


def is_grave(scope: str) -> bool:
    """Whether a scope gives so much that it is shown in red."""
    return scope in GRAVE


def instant(at: datetime) -> str:
    """An instant as a page shows it.

    >>> instant(datetime.fromisoformat("2026-01-02T03:04:05+00:00"))
    '2026-01-02 03:04 UTC'
    """
    return f"{at:%Y-%m-%d %H:%M} UTC"


def day(at: datetime) -> str:
    """The day of an instant.

    >>> day(datetime.fromisoformat("2026-01-02T03:04:05+00:00"))
    '2026-01-02'
    """
    return f"{at:%Y-%m-%d}"
