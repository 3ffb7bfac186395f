"""Signing in by password or another provider, creating accounts, secrets, and password resets.

All methods may raise `Refused` and `Failed`.
"""

import asyncio
import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError
from argon2.low_level import ARGON2_VERSION

from ingest.http.attempts import AttemptLimiter
from ingest.identity.accounts.service import Accounts, Tokens
from ingest.identity.caller import account_actor
from ingest.identity.login.attempts import KnownDevices, PasswordAttempts
from ingest.identity.login.oauth_http import OAuthProvider
from ingest.identity.login.postgres import LoginStore
from ingest.identity.login.rules import (
    LoginState,
    ProviderUser,
    StoredPassword,
    candidate_names,
    check_password,
    local_path,
    pending_until,
)
from ingest.identity.names import NAME, accounts_lost, check_name
from ingest.identity.secrets import hash_secret, new_secret, pkce_challenge
from ingest.ports import Identity
from shared.api.accounts import PasswordResetLink
from shared.clock import new_id
from shared.errors import Refused
from shared.events import AccountOpened

WEB = "web"
LOGIN, CLI, RESET = "login", "cli", "password_reset"
# An operator sends the link by hand, and it may be read the next morning.
RESET_LINK_DAYS, RESET_LINK_DAYS_MAX = 1, 60
# One hash takes 64 MiB and about 50 ms of a core: more at once would starve other requests.
AT_ONCE_MAX = 2


class Argon2Hasher:
    """Hashes and verifies passwords; verifying against no hash takes the same time."""

    def __init__(self, argon: PasswordHasher | None = None) -> None:
        self._argon = argon or PasswordHasher()
        self._slots = asyncio.Semaphore(AT_ONCE_MAX)
        self._dummy_hash = _make_dummy_hash(self._argon)

    async def hash_password(self, password: str) -> str:
        """Return a new hash of a password, with its own salt."""
        async with self._slots:
            return await asyncio.to_thread(self._argon.hash, password)

    async def matches(self, stored_hash: str | None, password: str) -> bool:
        """Return whether the password matches; False for no hash, after the same work."""
        async with self._slots:
            try:
                await asyncio.to_thread(
                    self._argon.verify, stored_hash or self._dummy_hash, password
                )
            except (Argon2Error, InvalidHashError):
                return False
        return stored_hash is not None

    @property
    def unusable_hash(self) -> str:
        """Return a hash that no password matches, after the same work as for any other."""
        return self._dummy_hash

    def is_old(self, stored_hash: str) -> bool:
        """Return whether a hash was made with weaker parameters than today's."""
        return self._argon.check_needs_rehash(stored_hash)


def _make_dummy_hash(argon: PasswordHasher) -> str:
    """Return a hash of no known password, which takes as long to verify as those of `argon`.

    Only its form matters. To compute one would take 0.2 s and 64 MiB at each start.
    """
    salt, digest = (
        base64.b64encode(bytes(length)).decode().rstrip("=")
        for length in (argon.salt_len, argon.hash_len)
    )
    parameters = f"m={argon.memory_cost},t={argon.time_cost},p={argon.parallelism}"
    return f"$argon2id$v={ARGON2_VERSION}${parameters}${salt}${digest}"


@dataclass(frozen=True)
class SignIn:
    """Signs participants in; `is_signup_on` allows new accounts by password.

    `attempts` limits passwords that are tried, `signups` new accounts.
    """

    people: Accounts
    store: LoginStore
    hashes: Argon2Hasher
    attempts: PasswordAttempts
    devices: KnownDevices
    signups: AttemptLimiter
    is_signup_on: bool = False

    async def has_passwords(self) -> bool:
        """Return whether password login is in use."""
        return self.is_signup_on or await self.store.find(bool, "any_password") is not None

    def check_signup(self) -> None:
        """Refuse a new account where signup is off."""
        if not self.is_signup_on:
            raise Refused("not_found", "signup is off: ask the operator for an account")

    async def with_password(self, name: str, password: str, address: str, cookie: str = "") -> str:
        """Return the account of a name and its password; `cookie` may name a known device."""
        device = self.devices.find(cookie, name)
        await self.attempts.admit(name, address, device)
        stored, linked_account = None, None
        if NAME.match(name):
            stored = await self.store.find(StoredPassword, "password_of", name=name)
            # A participant who unlinked their web identity cannot use its password. Unknown names
            # take the same steps, so that the response time tells nothing.
            linked_account = await self.people.account_of_identity(WEB, name)
        is_right = await self.hashes.matches(stored and stored.hash, password)
        if stored is None or not is_right or linked_account != stored.account:
            if stored is None and await self.store.is_lost():
                raise accounts_lost()
            raise Refused("invalid_credential", "wrong name or password")
        self.attempts.forgive(name, address, device)
        if self.hashes.is_old(stored.hash):
            hashed, at = await self.hashes.hash_password(password), self.people.clock()
            await self.store.execute("set_password", name=name, hash=hashed, at=at)
        return await self._record_in_log(stored.account, WEB, name)

    async def register(self, name: str, password: str, address: str) -> str:
        """Create an account under a free name."""
        self.check_signup()
        self.signups.take(address)
        check_name(name)
        check_password(password, name)
        identity = Identity(new_id(), WEB, name, new_id())
        hashed, at = await self.hashes.hash_password(password), self.people.clock()
        opened = self.store.open_account("open_with_password", name, identity, hash=hashed, at=at)
        if not await opened:
            raise Refused("name_taken", f"the name {name} is taken: choose another", "name")
        return await self._record_in_log(identity.account, WEB, name)

    async def with_provider(self, provider: str, user: ProviderUser) -> str:
        """Return the account of a provider's user, created the first time."""
        account = await self.people.account_of_identity(provider, user.subject)
        if account is None:
            account = await self._open_account(provider, user)
        return await self._record_in_log(account, provider, user.subject)

    async def resolve_account(self, provider: str, subject: str, name: str | None) -> str | None:
        """Return the account of a user that another service authenticated.

        An unknown user gets a new account if `name` is given, else None.
        """
        known = await self.people.account_of_identity(provider, subject)
        if known is not None or name is None:
            return known
        return await self.with_provider(provider, ProviderUser(subject, name))

    async def _open_account(self, provider: str, user: ProviderUser) -> str:
        for name in candidate_names(user.login):
            identity = Identity(new_id(), provider, user.subject, new_id())
            if await self.store.open_account("open_with_identity", name, identity):
                return identity.account
            # Perhaps the identity is taken, not the name: one person may sign in twice at once.
            existing = await self.people.account_of_identity(provider, user.subject)
            if existing is not None:
                return existing
        raise Refused("name_taken", f"no name like {user.login[:32]!r} is free", "name")

    async def _record_in_log(self, account: str, provider: str, subject: str) -> str:
        """Record account and identity in the log, where they mostly are already."""
        actor = account_actor(account)
        await self.people.decide(account, AccountOpened(via=provider), actor)
        await self.people.link(account, provider, subject, actor)
        return account


@dataclass(frozen=True)
class PasswordResets:
    """One-time links with which a participant sets a new password; `base` is the public address.

    Only the hash of a link's secret is stored.
    """

    store: LoginStore
    sign_in: SignIn
    tokens: Tokens
    base: str

    async def create(
        self, account: str, reason: str, actor: str, days: int = RESET_LINK_DAYS
    ) -> PasswordResetLink:
        """Create a link, and record in the log who did so and why.

        Whoever cannot log in at all chooses their first password with it. Raises `Refused`
        (`wrong_state`) for an account that logs in, but not with a password, and `Failed`.
        """
        if not await self.sign_in.people.list_identities(account):
            await self._add_password(account, actor)
        await self._password_name(account)
        secret = new_secret()
        await self.tokens.decisions.record_action("reset-password", account, reason, actor)
        expires_at = self.tokens.clock() + timedelta(days=days)
        reset = LoginState(RESET, WEB, "", "", account, "", expires_at)
        await self.store.execute("add_login_state", state=hash_secret(secret), **vars(reset))
        url = f"{self.base}/reset/{secret}"
        return PasswordResetLink(participant_id=account, url=url, expires_at=expires_at)

    async def find_account(self, secret: str) -> str:
        """Return the account of a link that can still be used. Raises `Refused` and `Failed`."""
        account = await self.store.find(str, "account_of_password_reset", **self._key(secret))
        if account is None:
            raise _invalid_reset()
        return account

    async def use(self, secret: str, password: str, *, is_all_revoked: bool) -> str:
        """Set the new password and end all browser sessions; return the name to log in with.

        `is_all_revoked` revokes all other tokens, too. A refused password leaves the link usable.
        """
        account = await self.find_account(secret)
        name = await self._password_name(account)
        check_password(password, name)
        # If the log cannot be read, no session could be ended: fail before the link is used.
        self.tokens.feed.rights()
        hashed = await self.sign_in.hashes.hash_password(password)
        if await self.store.execute("reset_password", hash=hashed, **self._key(secret)) == 0:
            raise _invalid_reset()
        actor = account_actor(account)
        for token in self.tokens.feed.rights().tokens_of(account):
            if is_all_revoked or token.is_session:
                await self.tokens.revoke(account, token.number, "the password was reset", actor)
        return name

    def _key(self, secret: str) -> dict[str, object]:
        """Return the values by which the statements find a link that can still be used."""
        return {"state": hash_secret(secret), "purpose": RESET, "at": self.tokens.clock()}

    async def _add_password(self, account: str, actor: str) -> None:
        """Let an account log in with a password once it has chosen one."""
        people = self.sign_in.people
        hashed = self.sign_in.hashes.unusable_hash
        await self.store.execute("add_password", account=account, hash=hashed, at=people.clock())
        name = await self.store.find(str, "password_name_of", account=account)
        if name is not None:
            await people.link(account, WEB, name, actor)

    async def _password_name(self, account: str) -> str:
        name = await self.store.find(str, "password_name_of", account=account)
        identity = (
            None if name is None else await self.sign_in.people.account_of_identity(WEB, name)
        )
        if name is None or identity != account:
            message = "this participant does not log in with a password: there is nothing to reset"
            raise Refused("wrong_state", message, "name")
        return name


def _invalid_reset() -> Refused:
    message = "this link was used, has expired or is incomplete: ask an operator for a new one"
    return Refused("not_found", message)


@dataclass(frozen=True)
class OAuthLogins:
    """OAuth logins; `base` is the public address of this platform."""

    providers: Mapping[str, OAuthProvider]
    store: LoginStore
    sign_in: SignIn
    base: str

    def provider(self, name: str) -> OAuthProvider:
        """Return a configured provider. Raises `Refused`."""
        provider = self.providers.get(name)
        if provider is None:
            raise Refused("not_found", f"login with {name[:32]!r} is not set up here")
        return provider

    async def start(self, name: str, next_path: str, account: str | None) -> tuple[str, str]:
        """Start an OAuth login; with `account` it links a new identity.

        Returns the authorization URL, and the cookie that the browser must bring back.
        """
        provider = self.provider(name)
        cookie, verifier = new_secret(), new_secret()
        state = await self._store_state(
            LoginState(
                purpose=LOGIN,
                provider=name,
                bound_to=hash_secret(cookie),
                verifier=verifier,
                account=account,
                next_path=next_path,
                expires_at=pending_until(self.sign_in.people.clock()),
            )
        )
        address = provider.address(self._redirect_url(name), state, pkce_challenge(verifier))
        return address, cookie

    async def finish(
        self, name: str, code: str, state: str, cookie: str, current_account: str | None
    ) -> tuple[str, str]:
        """Finish an OAuth login; return the account and the page to open next.

        `current_account` is the account logged in now.
        """
        provider = self.provider(name)
        login = await self._take_state(state, LOGIN, name)
        if not hmac.compare_digest(login.bound_to, hash_secret(cookie)):
            # Otherwise an attacker's callback link would log this browser in as the attacker.
            raise Refused("login_refused", "this login was started in another browser: start again")
        if login.account not in (None, current_account):
            # The account that started it has logged out; a later login must not become it.
            raise Refused("login_refused", "you are no longer logged in: log in and start again")
        user = await provider.fetch_user(code, self._redirect_url(name), login.verifier)
        account = login.account
        if account is None:
            account = await self.sign_in.with_provider(name, user)
        else:
            await self.sign_in.people.link(account, name, user.subject, account_actor(account))
        return account, local_path(login.next_path)

    async def fetch_user(self, name: str, code: str) -> ProviderUser:
        """Finish an OAuth login that was started by a third-party client."""
        return await self.provider(name).fetch_user(code, f"{self.base}/auth/cli/{name}", None)

    async def issue_ticket(self, name: str, cli_id: str, account: str) -> str:
        """Return a one-time ticket for a confirmation page."""
        ends_at = pending_until(self.sign_in.people.clock())
        bound_to = hash_secret(cli_id)
        return await self._store_state(LoginState(CLI, name, bound_to, "", account, "", ends_at))

    async def redeem_ticket(self, name: str, cli_id: str, ticket: str) -> str:
        """Return the account that confirmed a CLI id."""
        login = await self._take_state(ticket, CLI, name)
        if login.account is None or not hmac.compare_digest(login.bound_to, hash_secret(cli_id)):
            raise Refused("login_refused", "this answer belongs to another login: start again")
        return login.account

    async def _store_state(self, login: LoginState) -> str:
        """Store a login in progress, and return the secret that leads to it."""
        state = new_secret()
        await self.store.execute("add_login_state", state=hash_secret(state), **vars(login))
        return state

    async def _take_state(self, state: str, purpose: str, name: str) -> LoginState:
        login = await self.store.find(LoginState, "take_login_state", state=hash_secret(state))
        is_ours = login is not None and (login.purpose, login.provider) == (purpose, name)
        if login is None or not is_ours or login.expires_at <= self.sign_in.people.clock():
            raise Refused("login_refused", "this login has expired or is unknown: start again")
        return login

    def _redirect_url(self, name: str) -> str:
        return f"{self.base}/login/{name}/callback"
