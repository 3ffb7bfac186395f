"""The rules of logins that wait for a person; the time comes in with each question."""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ingest.domain.callers import PARTICIPANT_SCOPES, Caller, check_unlimited
from shared.errors import Refused
from shared.events.access import SCOPES

PENDING_S = 600
# For so long after its end an id is answered with "too late" instead of "unknown".
REMEMBERED_S = 3600
POLL_EVERY_S = 5
# A client that waits exactly as long as it was told must not be too early by the way's jitter.
POLL_LENIENCY_S = 1
GRANT_DAYS = 90
SESSION_S = 12 * 3600
DEVICE_SCOPES = (*(scope for scope in SCOPES if scope in PARTICIPANT_SCOPES),)
PROVIDERS = ("discord", "github")
# RFC 8628, 6.1: consonants alone, so that no word comes out and no letter is taken for a digit.
USER_CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
USER_CODE_LENGTH = 8
PASSWORD_LENGTH_MIN = 10
PASSWORD_LENGTH_MAX = 200
IPV4_PREFIX, IPV6_PREFIX = 24, 48
NAME_LENGTH_MAX = 32
LOCAL_PATH = re.compile(r"/[A-Za-z0-9][A-Za-z0-9/_-]{0,200}\Z")
CLI_ID = re.compile(r"[A-Za-z0-9_-]{16,128}\Z")


@dataclass(frozen=True)
class CliLogin:
    """A CLI id that was given out; `account` is whose it is, None until somebody links it."""

    provider: str
    network: str
    requested_at: datetime
    expires_at: datetime
    account: str | None = None


@dataclass(frozen=True)
class DeviceLogin:
    """A device that asks to act for somebody; `token` is the number of what it was given."""

    client: str
    scopes: Sequence[str]
    network: str
    requested_at: datetime
    expires_at: datetime
    account: str | None = None
    is_denied: bool = False
    token: int | None = None

    @property
    def grant_ends_at(self) -> datetime:
        """Until when the device may act, once it is let in."""
        return self.requested_at + timedelta(days=GRANT_DAYS)


def ends_at(at: datetime) -> datetime:
    """Until when what is asked now waits for a person."""
    return at + timedelta(seconds=PENDING_S)


def check_cli(found: CliLogin | None, account: str, is_live: bool, at: datetime) -> CliLogin:
    """A CLI id that this participant may link, or has linked. Errors: Refused.

    `is_live` says whether it acts for somebody now: one that was revoked does not come back.
    """
    if found is None:
        what = "this CLI id is not known here: run `popcorn register` again and paste the new one"
        raise Refused("unknown_cli_id", what, "cli_id")
    if found.account not in (None, account):
        what = "this CLI id is linked to somebody else: run `popcorn register` for one of your own"
        raise Refused("cli_id_taken", what, "cli_id")
    if found.expires_at <= at and not is_live:
        what = f"this CLI id waited until {found.expires_at.isoformat()}: register again"
        raise Refused("cli_id_expired", what, "cli_id")
    return found


def check_device(found: DeviceLogin | None, at: datetime) -> DeviceLogin:
    """A device that still waits for an answer. Errors: Refused."""
    if found is None:
        what = "no device waits with this code: compare it with what the device shows"
        raise Refused("unknown_user_code", what, "user_code")
    if found.expires_at <= at:
        what = "this code has expired: start the login on the device again"
        raise Refused("user_code_expired", what, "user_code")
    if found.is_denied or found.account is not None:
        raise Refused("user_code_used", "this code was answered already", "user_code")
    return found


def check_granted(login: DeviceLogin, caller: Caller) -> None:
    """Nobody gives a device what they do not hold themselves. Errors: Refused."""
    check_unlimited(caller)
    missing = [one for one in login.scopes if not caller.may(one)]
    if missing:
        what = f"the device asks for what you may not do yourself: {', '.join(missing)}"
        raise Refused("scope_missing", what, "user_code")


def check_answered(found: DeviceLogin | None, at: datetime) -> tuple[DeviceLogin, str]:
    """A device that was let in, and the account. Errors: Refused, with the codes of RFC 8628."""
    if found is None:
        raise Refused("invalid_grant", "this device code is not known here: start again")
    if found.is_denied:
        raise Refused("access_denied", "the login was turned down on the web page")
    if found.expires_at <= at:
        raise Refused("expired_token", "nobody answered in time: start the login again")
    if found.account is None:
        raise Refused("authorization_pending", "nobody has entered the code yet: ask again later")
    return found, found.account


def asked_scopes(text: str) -> tuple[str, ...]:
    """The scopes that a device asks for, each once; what participants need if it names none.

    Errors: Refused `invalid_scope`.

    >>> asked_scopes("submit read:own submit")
    ('submit', 'read:own')
    """
    scopes = tuple(dict.fromkeys(text.split()))
    unknown = [one for one in scopes if one not in SCOPES]
    if unknown:
        known = " ".join(SCOPES)
        raise Refused("invalid_scope", f"{unknown[0][:64]!r} is no scope: {known}", "scope")
    return scopes or DEVICE_SCOPES


def plain_code(text: str) -> str:
    """A user code as it is kept, however a person typed it.

    >>> plain_code(" bcdf-ghjk ")
    'BCDFGHJK'
    """
    return "".join(one for one in text.upper() if one in USER_CODE_LETTERS)


def shown_code(code: str) -> str:
    """A user code as people read it.

    >>> shown_code("BCDFGHJK")
    'BCDF-GHJK'
    """
    return f"{code[:4]}-{code[4:]}"


def network_of(address: str | None) -> str:
    """Whence a request came, as far as a person needs to know it and no further.

    >>> network_of("203.0.113.9"), network_of("2001:db8:1:2::3"), network_of("::ffff:203.0.113.9")
    ('203.0.113.0/24', '2001:db8:1::/48', '203.0.113.0/24')
    >>> network_of("127.0.0.1"), network_of(None)
    ('this machine', 'an unknown network')
    """
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return "an unknown network"
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
        found = found.ipv4_mapped
    if found.is_loopback:
        return "this machine"
    prefix = IPV4_PREFIX if found.version == 4 else IPV6_PREFIX
    return str(ipaddress.ip_network((found, prefix), strict=False))


def local_path(text: str, otherwise: str = "/account") -> str:
    """Where to go on after a login: a page of ours, never another site.

    >>> local_path("/device"), local_path("//evil.example"), local_path("https://evil.example")
    ('/device', '/account', '/account')
    """
    return text if LOCAL_PATH.match(text) else otherwise


def free_names(wanted: str) -> tuple[str, ...]:
    """Names to try, in order, for somebody who comes from another provider under a name.

    >>> free_names("Ada Lovelace!")[:3]
    ('ada-lovelace', 'ada-lovelace-2', 'ada-lovelace-3')
    >>> free_names("Ада")[0]
    'participant'
    """
    kept = re.sub(r"[^a-z0-9_]+", "-", wanted.lower()).strip("-_") or "participant"
    kept = kept[: NAME_LENGTH_MAX - 3].rstrip("-_")
    return (kept, *(f"{kept}-{number}" for number in range(2, 100)))


def check_password(password: str, name: str) -> None:
    """Whether a new password will do. Errors: Refused."""
    if not PASSWORD_LENGTH_MIN <= len(password) <= PASSWORD_LENGTH_MAX:
        what = (
            f"a password has {PASSWORD_LENGTH_MIN} to {PASSWORD_LENGTH_MAX} characters; "
            f"this one has {len(password)}"
        )
        raise Refused("bad_password", what, "password")
    if password.lower() == name or len(set(password)) == 1:
        raise Refused("bad_password", "this password is too easy to guess", "password")
