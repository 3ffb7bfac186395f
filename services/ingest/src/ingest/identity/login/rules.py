"""Rules for pending logins; the time is always an argument."""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from ingest.identity.caller import Caller, check_unlimited
from ingest.identity.names import NAME_LENGTH_MAX
from ingest.identity.scopes import PARTICIPANT_SCOPES
from shared.errors import Refused
from shared.events.participants import SCOPES

PENDING_S = 600
# For this long after its end, an id is answered with "expired" instead of "unknown".
REMEMBERED_S = 3600
POLL_EVERY_S = 5
# A client that waits exactly the interval must not be refused because of network jitter.
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
LOCAL_PATH = re.compile(r"/[A-Za-z0-9][A-Za-z0-9/_-]{0,200}\Z")
CLI_ID = re.compile(r"[A-Za-z0-9_-]{16,128}\Z")


@dataclass(frozen=True)
class CliLogin:
    """A CLI id that was issued; `account` is its owner, None until it is linked."""

    provider: str
    network: str
    requested_at: datetime
    expires_at: datetime
    account: str | None = None


@dataclass(frozen=True)
class DeviceLogin:
    """A device that wants to log in; `token` is the number of the token it got."""

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
        """Return until when the device may act once it is approved."""
        return self.requested_at + timedelta(days=GRANT_DAYS)


def pending_until(at: datetime) -> datetime:
    """Return when a login that starts now expires."""
    return at + timedelta(seconds=PENDING_S)


def check_cli(login: CliLogin | None, account: str, is_live: bool, at: datetime) -> CliLogin:
    """Return a CLI id that this participant may link, or has linked. Raises `Refused`.

    `is_live` says whether it acts for somebody now: a revoked id cannot come back.
    """
    if login is None:
        message = (
            "this CLI id is not known here: run `popcorn register` again and paste the new one"
        )
        raise Refused("unknown_cli_id", message, "cli_id")
    if login.account not in (None, account):
        message = "this CLI id is linked to somebody else: run `popcorn register` to get your own"
        raise Refused("cli_id_taken", message, "cli_id")
    if login.expires_at <= at and not is_live:
        message = f"this CLI id expired at {login.expires_at.isoformat()}: register again"
        raise Refused("cli_id_expired", message, "cli_id")
    return login


def check_device(login: DeviceLogin | None, at: datetime) -> DeviceLogin:
    """Return a device that still waits for an answer. Raises `Refused`."""
    if login is None:
        message = "no device waits with this code: compare it with what the device shows"
        raise Refused("unknown_user_code", message, "user_code")
    if login.expires_at <= at:
        message = "this code has expired: start the login on the device again"
        raise Refused("user_code_expired", message, "user_code")
    if login.is_denied or login.account is not None:
        raise Refused("user_code_used", "this code was already used", "user_code")
    return login


def check_holds_scopes(login: DeviceLogin, caller: Caller) -> None:
    """Refuse scopes that the approving participant does not have."""
    check_unlimited(caller)
    missing = [scope for scope in login.scopes if not caller.may(scope)]
    if missing:
        message = f"the device asks for scopes that you do not have: {', '.join(missing)}"
        raise Refused("scope_missing", message, "user_code")


def check_approved(login: DeviceLogin | None, at: datetime) -> tuple[DeviceLogin, str]:
    """Return an approved device and its account. Raises `Refused` with the codes of RFC 8628."""
    if login is None:
        raise Refused("invalid_grant", "this device code is not known here: start again")
    if login.is_denied:
        raise Refused("access_denied", "the login was denied on the web page")
    if login.expires_at <= at:
        raise Refused("expired_token", "nobody answered in time: start the login again")
    if login.account is None:
        raise Refused("authorization_pending", "nobody has entered the code yet: ask again later")
    return login, login.account


def parse_scopes(text: str) -> tuple[str, ...]:
    """Return the requested scopes, each once; the default scopes if there are none.

    Raises `Refused` (`invalid_scope`).

    >>> parse_scopes("submit read:own submit")
    ('submit', 'read:own')
    """
    scopes = tuple(dict.fromkeys(text.split()))
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown:
        known = " ".join(SCOPES)
        raise Refused(
            "invalid_scope", f"unknown scope {unknown[0][:64]!r}: expected {known}", "scope"
        )
    return scopes or DEVICE_SCOPES


def normalize_code(text: str) -> str:
    """Return a user code as it is stored, however it was typed.

    >>> normalize_code(" bcdf-ghjk ")
    'BCDFGHJK'
    """
    return "".join(letter for letter in text.upper() if letter in USER_CODE_LETTERS)


def format_code(code: str) -> str:
    """Return a user code as it is displayed.

    >>> format_code("BCDFGHJK")
    'BCDF-GHJK'
    """
    return f"{code[:4]}-{code[4:]}"


def coarse_network(address: str | None) -> str:
    """Return the network of an address, as precise as a person needs it.

    >>> (coarse_network("203.0.113.9"), coarse_network("2001:db8:1:2::3"),
    ...     coarse_network("::ffff:203.0.113.9"))
    ('203.0.113.0/24', '2001:db8:1::/48', '203.0.113.0/24')
    >>> coarse_network("127.0.0.1"), coarse_network(None)
    ('this machine', 'an unknown network')
    """
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return "an unknown network"
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    if parsed.is_loopback:
        return "this machine"
    prefix = IPV4_PREFIX if parsed.version == 4 else IPV6_PREFIX
    return str(ipaddress.ip_network((parsed, prefix), strict=False))


def local_path(text: str) -> str:
    """Return the page to open after a login: only paths of this site.

    >>> local_path("/device"), local_path("//evil.example"), local_path("https://evil.example")
    ('/device', '/account', '/account')
    """
    return text if LOCAL_PATH.match(text) else "/account"


def candidate_names(login: str) -> tuple[str, ...]:
    """Return names to try, in order, for a user of another provider.

    >>> candidate_names("Ada Lovelace!")[:3]
    ('ada-lovelace', 'ada-lovelace-2', 'ada-lovelace-3')
    >>> candidate_names("Ада")[0]
    'participant'
    """
    base_name = re.sub(r"[^a-z0-9_]+", "-", login.lower()).strip("-_") or "participant"
    base_name = base_name[: NAME_LENGTH_MAX - 3].rstrip("-_")
    return (base_name, *(f"{base_name}-{number}" for number in range(2, 100)))


def check_password(password: str, name: str) -> None:
    """Refuse a weak password."""
    if not PASSWORD_LENGTH_MIN <= len(password) <= PASSWORD_LENGTH_MAX:
        message = (
            f"a password has {PASSWORD_LENGTH_MIN} to {PASSWORD_LENGTH_MAX} characters; "
            f"this one has {len(password)}"
        )
        raise Refused("bad_password", message, "password")
    if password.lower() == name or len(set(password)) == 1:
        raise Refused("bad_password", "this password is too easy to guess", "password")


@dataclass(frozen=True)
class LoginState:
    """An OAuth login in progress; `bound_to` is the hash of what the browser must bring back."""

    purpose: str
    provider: str
    bound_to: str
    verifier: str
    account: str | None
    next_path: str
    expires_at: datetime


class StoredPassword(NamedTuple):
    """A stored password hash, and its account."""

    account: str
    hash: str


class ProviderUser(NamedTuple):
    """A user of another provider."""

    subject: str
    login: str
