"""How somebody comes in: by name and password, or vouched for by another provider."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ingest.domain.account_tables import accounts_lost
from ingest.domain.accounts import NAME, Open, check_name
from ingest.login.domain import NAME_LENGTH_MAX, check_password, free_names
from ingest.login.ports import Hashes, Newcomers, Passwords, Stranger
from ingest.service.people import People
from ingest.service.ports import Identity
from ingest.service.tries import Tries
from shared.clock import new_id
from shared.errors import Refused

WEB = "web"


class Store(Passwords, Newcomers, Protocol):
    """Where passwords and new names are kept."""

    async def is_lost(self) -> bool:
        """Whether names and passwords were lost. Errors: Failed."""
        ...


@dataclass(frozen=True)
class Limits:
    """How often somebody may try to get in."""

    per_address: Tries
    per_name: Tries
    signups: Tries


@dataclass(frozen=True)
class Arrivals:
    """Those who come in; `is_signup_on` says whether anybody may make an account by password."""

    people: People
    store: Store
    hashes: Hashes
    limits: Limits
    clock: Callable[[], datetime]
    is_signup_on: bool = False

    async def has_passwords(self) -> bool:
        """Whether anybody logs in by a password. Errors: Failed."""
        return self.is_signup_on or await self.store.has_any()

    def check_signup(self) -> None:
        """Refuse a new account where none is made. Errors: Refused."""
        if not self.is_signup_on:
            raise Refused("not_found", "accounts are not made here: ask the operator for one")

    async def by_password(self, name: str, password: str, address: str) -> str:
        """The account of a name, by its password. Errors: Refused; Failed."""
        self.limits.per_address.take(address)
        self.limits.per_name.take(name[:NAME_LENGTH_MAX])
        is_name = NAME.match(name) is not None
        kept = await self.store.find(name) if is_name else None
        # Who unlinked their web identity comes by its password no longer. All of this is done for
        # names that nobody has too, so that how long it takes tells nothing.
        linked = await self.people.account_of_identity(WEB, name) if is_name else None
        is_right = await self.hashes.matches(kept and kept.hash, password)
        if kept is None or not is_right or linked != kept.account:
            if kept is None and await self.store.is_lost():
                raise accounts_lost()
            what = "this name and this password do not belong together"
            raise Refused("invalid_credential", what)
        self.limits.per_name.forgive(name)
        if self.hashes.is_old(kept.hash):
            await self.store.renew(name, await self.hashes.hashed(password), self.clock())
        return await self._settled(kept.account, WEB, name)

    async def register(self, name: str, password: str, address: str) -> str:
        """A new account under a free name. Errors: Refused, `name_taken` among them; Failed."""
        self.check_signup()
        self.limits.signups.take(address)
        check_name(name)
        check_password(password, name)
        identity = Identity(new_id(), WEB, name, new_id())
        hashed, at = await self.hashes.hashed(password), self.clock()
        if not await self.store.open_with_password(name, identity, hashed, at):
            raise Refused("name_taken", f"the name {name} is taken: choose another", "name")
        return await self._settled(identity.account, WEB, name)

    async def by_stranger(self, provider: str, stranger: Stranger) -> str:
        """The account of who is vouched for; a new one the first time. Errors: Refused; Failed."""
        subject = stranger.subject
        account = await self.people.account_of_identity(provider, subject)
        if account is None:
            account = await self._opened(provider, stranger)
        return await self._settled(account, provider, subject)

    async def vouched(self, provider: str, subject: str, name: str | None) -> str | None:
        """The account of who another service vouches for; new under a name, None without one.

        Errors: Refused; Failed.
        """
        known = await self.people.account_of_identity(provider, subject)
        if known is not None or name is None:
            return known
        return await self.by_stranger(provider, Stranger(subject, name))

    async def link(self, account: str, provider: str, stranger: Stranger) -> None:
        """Let who is vouched for be this participant too. Errors: Refused `identity_taken`."""
        await self.people.link(account, provider, stranger.subject, f"account:{account}")

    async def _opened(self, provider: str, stranger: Stranger) -> str:
        for name in free_names(stranger.login):
            identity = Identity(new_id(), provider, stranger.subject, new_id())
            if await self.store.open_with_identity(name, identity):
                return identity.account
            # Perhaps it was not the name: the same person may come twice at once.
            known = await self.people.account_of_identity(provider, stranger.subject)
            if known is not None:
                return known
        raise Refused("name_taken", f"no name like {stranger.login[:32]!r} is free", "name")

    async def _settled(self, account: str, provider: str, subject: str) -> str:
        """The account, once the log knows of it what the tables know; mostly it does already."""
        by = f"account:{account}"
        await self.people.decide(account, Open(provider), by)
        await self.people.link(account, provider, subject, by)
        return account
