"""Roles, and the scopes that each of them allows."""

from collections.abc import Iterable, Mapping

from harness.vocabulary import SUBMISSION_MODES
from shared.events import SCOPES

CREATOR = "creator"
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
NOT_THROUGH_DISCORD = STAFF_SCOPES | {"account", "webhooks"}
# Operators through the Discord bot keep these scopes: none that gives anybody more rights.
STAFF_SCOPES_THROUGH_DISCORD = STAFF_SCOPES - {ADMIN}
SCOPES_BY_ROLE: Mapping[str, frozenset[str]] = {
    "participant": PARTICIPANT_SCOPES,
    "creator": CREATOR_SCOPES,
    "moderator": MODERATOR_SCOPES,
    "admin": frozenset(SCOPES),
}
# Banned participants may still read their own submissions.
BANNED_SCOPES = frozenset({"read:own"})
SCOPE_OF_MODE = dict.fromkeys(SUBMISSION_MODES, "submit") | {
    "profile": "profile",
    "ranked": "submit:ranked",
}
STAFF_ROLES = frozenset({"moderator", "admin"})
GRANTABLE_ROLES = tuple(role for role in SCOPES_BY_ROLE if role != "participant")


def allowed_scopes(roles: Iterable[str]) -> frozenset[str]:
    """Return the scopes that roles allow; everybody is a participant.

    >>> "author" in allowed_scopes([]), "author" in allowed_scopes(["creator"])
    (False, True)
    """
    return PARTICIPANT_SCOPES.union(*(SCOPES_BY_ROLE.get(role, frozenset()) for role in roles))


def effective_scopes(scopes: Iterable[str], roles: Iterable[str]) -> frozenset[str]:
    """Return the scopes of a token for an account with these roles.

    >>> sorted(effective_scopes(["admin", "submit"], ["moderator"]))
    ['admin:participants', 'admin:submissions', 'submit']
    """
    token_scopes = frozenset(scopes)
    if ADMIN in token_scopes:
        token_scopes |= STAFF_SCOPES
    return token_scopes & allowed_scopes(roles)
