"""Signing in by password or another provider, and creating accounts."""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from ingest.access.feed import hash_secret
from ingest.accounts.rules import NAME, accounts_lost, check_name
from ingest.accounts.service import Accounts
from ingest.attempt_limiter import AttemptLimiter
from ingest.login.oauth_http import OAuthProvider
from ingest.login.postgres import PostgresLoginStateStore, PostgresPasswordStore
from ingest.login.rules import (
    NAME_LENGTH_MAX,
    LoginState,
    ProviderUser,
    candidate_names,
    check_password,
    local_path,
    pending_until,
)
from ingest.login.secrets import Argon2Hasher, new_secret, pkce_challenge
from ingest.ports import Identity
from shared.clock import new_id
from shared.errors import Refused
from shared.events import AccountOpened

WEB = "web"

LOGIN, CLI = "login", "cli"


@dataclass(frozen=True)
class SignInLimits:
    """Limits on sign-in attempts and new accounts."""

    per_address: AttemptLimiter
    per_name: AttemptLimiter
    signups: AttemptLimiter


@dataclass(frozen=True)
class SignIn:
    """Signs participants in; `is_signup_on` allows new accounts by password."""

    people: Accounts
    store: PostgresPasswordStore
    hashes: Argon2Hasher
    limits: SignInLimits
    clock: Callable[[], datetime]
    is_signup_on: bool = False

    async def has_passwords(self) -> bool:
        """Return whether password login is in use. Raises `Failed`."""
        return self.is_signup_on or await self.store.has_any()

    def check_signup(self) -> None:
        """Refuse a new account where signup is off."""
        if not self.is_signup_on:
            raise Refused("not_found", "signup is off: ask the operator for an account")

    async def with_password(self, name: str, password: str, address: str) -> str:
        """Return the account of a name and its password. Raises `Refused` and `Failed`."""
        self.limits.per_address.take(address)
        self.limits.per_name.take(name[:NAME_LENGTH_MAX])
        is_name = NAME.match(name) is not None
        stored = await self.store.find(name) if is_name else None
        # A participant who unlinked their web identity cannot use its password. Unknown names take
        # the same steps, so that the response time tells nothing.
        linked_account = await self.people.account_of_identity(WEB, name) if is_name else None
        is_right = await self.hashes.matches(stored and stored.hash, password)
        if stored is None or not is_right or linked_account != stored.account:
            if stored is None and await self.store.is_lost():
                raise accounts_lost()
            message = "wrong name or password"
            raise Refused("invalid_credential", message)
        self.limits.per_name.forgive(name)
        if self.hashes.is_old(stored.hash):
            await self.store.renew(name, await self.hashes.hash_password(password), self.clock())
        return await self._record_in_log(stored.account, WEB, name)

    async def register(self, name: str, password: str, address: str) -> str:
        """Create an account under a free name.

        Raises `Refused` (such as `name_taken`) and `Failed`.
        """
        self.check_signup()
        self.limits.signups.take(address)
        check_name(name)
        check_password(password, name)
        identity = Identity(new_id(), WEB, name, new_id())
        hashed, at = await self.hashes.hash_password(password), self.clock()
        if not await self.store.open_with_password(name, identity, hashed, at):
            raise Refused("name_taken", f"the name {name} is taken: choose another", "name")
        return await self._record_in_log(identity.account, WEB, name)

    async def with_provider(self, provider: str, user: ProviderUser) -> str:
        """Return the account of a provider's user, created the first time.

        Raises `Refused` and `Failed`.
        """
        subject = user.subject
        account = await self.people.account_of_identity(provider, subject)
        if account is None:
            account = await self._open_account(provider, user)
        return await self._record_in_log(account, provider, subject)

    async def resolve_account(self, provider: str, subject: str, name: str | None) -> str | None:
        """Return the account of a user that another service authenticated.

        An unknown user gets a new account if `name` is given, else None. Raises `Refused` and
        `Failed`.
        """
        known = await self.people.account_of_identity(provider, subject)
        if known is not None or name is None:
            return known
        return await self.with_provider(provider, ProviderUser(subject, name))

    async def link(self, account: str, provider: str, user: ProviderUser) -> None:
        """Link a provider's user to an account. Raises `Refused` (`identity_taken`)."""
        await self.people.link(account, provider, user.subject, f"account:{account}")

    async def _open_account(self, provider: str, user: ProviderUser) -> str:
        for name in candidate_names(user.login):
            identity = Identity(new_id(), provider, user.subject, new_id())
            if await self.store.open_with_identity(name, identity):
                return identity.account
            # Perhaps the identity is taken, not the name: one person may sign in twice at once.
            existing = await self.people.account_of_identity(provider, user.subject)
            if existing is not None:
                return existing
        raise Refused("name_taken", f"no name like {user.login[:32]!r} is free", "name")

    async def _record_in_log(self, account: str, provider: str, subject: str) -> str:
        """Record account and identity in the log, where they mostly are already."""
        by = f"account:{account}"
        await self.people.decide(account, AccountOpened(via=provider), by)
        await self.people.link(account, provider, subject, by)
        return account


class AuthorizationRedirect(NamedTuple):
    """The authorization URL, and the cookie that the browser must bring back."""

    address: str
    cookie: str


class CallbackState(NamedTuple):
    """What the browser brings back: the provider's state and our cookie."""

    state: str
    cookie: str


class CompletedLogin(NamedTuple):
    """A finished login, and the page to open next."""

    account: str
    next_path: str


@dataclass(frozen=True)
class OAuthLogins:
    """OAuth logins; `base` is the public address of this platform."""

    providers: Mapping[str, OAuthProvider]
    states: PostgresLoginStateStore
    sign_in: SignIn
    clock: Callable[[], datetime]
    base: str

    def provider(self, name: str) -> OAuthProvider:
        """Return a configured provider. Raises `Refused`."""
        provider = self.providers.get(name)
        if provider is None:
            raise Refused("not_found", f"login with {name[:32]!r} is not set up here")
        return provider

    async def start(self, name: str, next_path: str, account: str | None) -> AuthorizationRedirect:
        """Start an OAuth login; with `account` it links a new identity.

        Raises `Refused` and `Failed`.
        """
        provider = self.provider(name)
        state, cookie, verifier = new_secret(), new_secret(), new_secret()
        login_state = LoginState(
            LOGIN,
            name,
            hash_secret(cookie),
            verifier,
            account,
            next_path,
            pending_until(self.clock()),
        )
        await self.states.add(hash_secret(state), login_state)
        redirect = self._redirect_url(name)
        return AuthorizationRedirect(
            provider.address(redirect, state, pkce_challenge(verifier)), cookie
        )

    async def finish(
        self, name: str, code: str, callback: CallbackState, current_account: str | None
    ) -> CompletedLogin:
        """Finish an OAuth login; `current_account` is the account logged in now.

        Raises `Refused` and `Failed`.
        """
        provider = self.provider(name)
        login_state = await self._take_state(callback.state, LOGIN, name)
        if not hmac.compare_digest(login_state.bound_to, hash_secret(callback.cookie)):
            # Otherwise an attacker's callback link would log this browser in as the attacker.
            raise Refused("login_refused", "this login was started in another browser: start again")
        if login_state.account not in (None, current_account):
            # The account that started it has logged out; a later login must not become it.
            raise Refused("login_refused", "you are no longer logged in: log in and start again")
        user = await provider.fetch_user(code, self._redirect_url(name), login_state.verifier)
        if login_state.account is None:
            account = await self.sign_in.with_provider(name, user)
        else:
            account = login_state.account
            await self.sign_in.link(account, name, user)
        return CompletedLogin(account, local_path(login_state.next_path))

    async def fetch_user(self, name: str, code: str) -> ProviderUser:
        """Finish an OAuth login that was started by a third-party client.

        Raises `Refused` and `Failed`.
        """
        return await self.provider(name).fetch_user(code, f"{self.base}/auth/cli/{name}", None)

    async def issue_ticket(self, name: str, cli_id: str, account: str) -> str:
        """Return a one-time ticket for a confirmation page. Raises `Failed`."""
        ticket = new_secret()
        login_state = LoginState(
            CLI, name, hash_secret(cli_id), "", account, "", pending_until(self.clock())
        )
        await self.states.add(hash_secret(ticket), login_state)
        return ticket

    async def redeem_ticket(self, name: str, cli_id: str, ticket: str) -> str:
        """Return the account that confirmed a CLI id. Raises `Refused` and `Failed`."""
        login_state = await self._take_state(ticket, CLI, name)
        if login_state.account is None or not hmac.compare_digest(
            login_state.bound_to, hash_secret(cli_id)
        ):
            raise Refused("login_refused", "this answer belongs to another login: start again")
        return login_state.account

    async def _take_state(self, state: str, purpose: str, name: str) -> LoginState:
        login_state = await self.states.take(hash_secret(state))
        is_ours = login_state is not None and (login_state.purpose, login_state.provider) == (
            purpose,
            name,
        )
        if login_state is None or not is_ours or login_state.expires_at <= self.clock():
            message = "this login has expired or is unknown: start again"
            raise Refused("login_refused", message)
        return login_state

    def _redirect_url(self, name: str) -> str:
        return f"{self.base}/login/{name}/callback"
