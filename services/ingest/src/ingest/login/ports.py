"""What logins need of the world: a place for those that wait, and other providers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from ingest.login.domain import CliLogin, DeviceLogin
from ingest.service.ports import Identity


class CliLogins(Protocol):
    """CLI ids, each by its hash; all methods raise Failed when the store does not answer."""

    async def add(self, cli: str, login: CliLogin) -> None:
        """Keep one that was given out."""
        ...

    async def find(self, cli: str) -> CliLogin | None:
        """What is known of one."""
        ...

    async def claim(self, cli: str, account: str, at: datetime) -> bool:
        """Make it this account's; False if it is another's, too old or unknown."""
        ...


class DeviceLogins(Protocol):
    """Devices that wait, by the hash of the device code or by the user code."""

    async def add(self, device: str, code: str, login: DeviceLogin) -> bool:
        """Keep one; False if another one shows this user code now."""
        ...

    async def by_code(self, code: str) -> DeviceLogin | None:
        """The one that shows a user code."""
        ...

    async def answer(self, code: str, account: str | None, at: datetime) -> bool:
        """Let it in as this account, None to turn it away; False if that was said already."""
        ...

    async def polled(self, device: str, at: datetime, since: datetime) -> bool:
        """Note that it asks; False if it is unknown or has asked after `since`."""
        ...

    async def by_hash(self, device: str) -> DeviceLogin | None:
        """The one that holds a device code."""
        ...

    async def finish(self, device: str, token: int) -> None:
        """Note that it was given its token."""
        ...


@dataclass(frozen=True)
class LoginState:
    """What is remembered of a browser until it comes back; `bound_to` is what it must bring."""

    purpose: str
    provider: str
    bound_to: str
    verifier: str
    account: str | None
    next_path: str
    expires_at: datetime


class LoginStates(Protocol):
    """Browsers on their way, each by the hash of its state."""

    async def add(self, state: str, login: LoginState) -> None:
        """Keep one."""
        ...

    async def take(self, state: str) -> LoginState | None:
        """Hand it over and forget it: a second one gets None."""
        ...


class Password(NamedTuple):
    """What is kept of a password, and whose it is."""

    account: str
    hash: str


class Passwords(Protocol):
    """Those who come by name and password."""

    async def find(self, name: str) -> Password | None:
        """The password of a name."""
        ...

    async def has_any(self) -> bool:
        """Whether anybody has one."""
        ...

    async def renew(self, name: str, hashed: str, at: datetime) -> None:
        """Keep the same password under a newer hash."""
        ...


class Hashes(Protocol):
    """What turns a password into what is kept of it."""

    async def hashed(self, password: str) -> str:
        """A new hash of a password, with a salt of its own."""
        ...

    async def matches(self, kept: str | None, password: str) -> bool:
        """Whether this is the password that was kept; of None never, after the same work."""
        ...

    def is_old(self, kept: str) -> bool:
        """Whether a hash was made with weaker parameters than today's."""
        ...


class Newcomers(Protocol):
    """New participants: a name is given to one alone."""

    async def open_with_password(
        self, name: str, identity: Identity, hashed: str, at: datetime
    ) -> bool:
        """A name, its account, identity and password at once; False if the name is taken."""
        ...

    async def open_with_identity(self, name: str, identity: Identity) -> bool:
        """A name, its account and its identity at once; False if the name or it is taken."""
        ...


class Stranger(NamedTuple):
    """Somebody as another provider knows them."""

    subject: str
    login: str


class Provider(Protocol):
    """Another service that vouches for people, by OAuth 2's code flow."""

    @property
    def title(self) -> str:
        """Its name as people know it."""
        ...

    def address(self, redirect: str, state: str, challenge: str) -> str:
        """Where a browser goes to be vouched for."""
        ...

    async def stranger(self, code: str, redirect: str, verifier: str | None) -> Stranger:
        """Who came back with this code. Errors: Refused if it is not good; Failed."""
        ...


Providers = Mapping[str, Provider]
