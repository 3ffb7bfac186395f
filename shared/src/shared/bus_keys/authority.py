"""The operator's folder of keys: from it come all accounts, users and server settings of the bus.

`operator.seed` signs accounts, the seed of an account signs its users. Neither leaves the folder.
A process gets one file of `credentials`, a nats-server gets `bus.conf`. Servers keep the accounts
that they were given later: `shared.nats.account_deployment` gives them.
"""

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shared.bus_keys import permissions
from shared.bus_keys.claims import (
    ACCOUNT,
    OPERATOR,
    USER,
    Credentials,
    Key,
    make_key,
    parse_credentials,
    read_claims,
    read_key,
    sign_claims,
)
from shared.bus_keys.files import write_private
from shared.bus_keys.permissions import (
    DISCORD_EDGE,
    PUBLISH,
    SERVICES,
    SERVICES_ACCOUNT,
    SUBSCRIBE,
    SYSTEM_ACCOUNT,
    SYSTEM_USER,
    account_of,
    allowed,
    exports,
    user_rights,
)
from shared.errors import Refused
from shared.private_files import create_private_folder

OPERATOR_NAME = "warpboard"
# Of each server its own folder, which its environment names.
ACCOUNTS_VARIABLE = "$NATS_ACCOUNTS"
# What users outside of the services' account may hold open. A process connects once or twice, and
# needs a few subscriptions, each of which takes memory of the server.
CONNECTIONS_MAX = 8
SUBSCRIPTIONS_MAX = 64
UNLIMITED = -1
_LIMITS = {
    "subs": UNLIMITED,
    "data": UNLIMITED,
    "payload": UNLIMITED,
    "imports": UNLIMITED,
    "exports": UNLIMITED,
    "wildcards": True,
    "conn": UNLIMITED,
    "leaf": 0,
}
_JETSTREAM = {
    "mem_storage": UNLIMITED,
    "disk_storage": UNLIMITED,
    "streams": UNLIMITED,
    "consumer": UNLIMITED,
    "max_ack_pending": UNLIMITED,
}
_USER_LIMITS = {"subs": UNLIMITED, "data": UNLIMITED, "payload": UNLIMITED}
SYSTEM_RIGHTS = ("$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.SERVER.PING")


class UserKey(NamedTuple):
    """One user and its current credentials; `expires_at_s` None: they do not expire."""

    user: str
    account: str
    public: str
    issued_at_s: int
    expires_at_s: int | None
    is_revoked: bool
    path: Path


class Authority:
    """The keys in a folder, which `create` makes. Its methods raise Refused `no_keys` without."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    @property
    def server_config(self) -> Path:
        """The part of a nats-server's configuration that makes it know our accounts."""
        return self.folder / "bus.conf"

    @property
    def exists(self) -> bool:
        """Whether the folder has an operator's key."""
        return self._seed_path("operator").exists()

    @property
    def credentials_folder(self) -> Path:
        """Where each user has its `.creds` file."""
        return self.folder / "credentials"

    @property
    def ca(self) -> Path:
        """The certificate of the CA, if one was made."""
        return self.folder / "certificates" / "ca.pem"

    @property
    def address(self) -> str:
        """How processes reach the bus, "" if it was not saved."""
        path = self.folder / "address"
        return path.read_text().strip() if path.exists() else ""

    def save_address(self, address: str) -> None:
        """Keep how processes reach the bus."""
        _write(self.folder / "address", address)

    def account_jwt(self, user: str) -> str:
        """Return the JWT of a user's account."""
        return self._account_path(account_of(user)).read_text().strip()

    def credentials_path(self, user: str) -> Path:
        """Return the file with which a user logs in."""
        return self.credentials_folder / f"{user}.creds"

    def create(self) -> None:
        """Make what is missing of the operator, the accounts and the users of all services."""
        create_private_folder(self.folder)
        if not self.exists:
            _write(self._seed_path("operator"), make_key(OPERATOR).seed)
        self.ensure_users(SYSTEM_USER, *SERVICES, DISCORD_EDGE)

    def ensure_user(self, user: str) -> Path:
        """Make the account and the credentials of a user where they are missing.

        Return the path of its credentials. Raises Refused `bad_user`.
        """
        return self.ensure_users(user)[0]

    def ensure_users(self, *users: str) -> list[Path]:
        """Make what is missing of each, as `ensure_user`; the server's file is written once."""
        paths = [self.credentials_path(user) for user in users]
        missing = [user for user, path in zip(users, paths, strict=True) if not path.exists()]
        self._ensure_accounts(missing)
        for user in missing:
            self.issue(user)
        return paths

    def replace(self, user: str) -> Path:
        """Give a user, who may be new, a key that is its only valid one.

        Return the path of its credentials. Raises Refused `bad_user`.
        """
        self._ensure_accounts([user])
        self.issue(user)
        self.revoke(user, keeps_newest=True)
        return self.credentials_path(user)

    def _ensure_accounts(self, users: Iterable[str]) -> None:
        """Make the accounts of users where they are missing."""
        is_new = False
        for user in users:
            _check_user(user)
            account = account_of(user)
            if self._account_path(account).exists():
                continue
            if not self._seed_path(account).exists():
                _write(self._seed_path(account), make_key(ACCOUNT).seed)
            self._sign_account(account, user, {})
            is_new = True
        if is_new and self._account_path(SERVICES_ACCOUNT).exists():
            self.write_server_config()

    def issue(self, user: str, expires_s: int = 0) -> Credentials:
        """Give a user a new key, which replaces the one in its file. Older ones stay valid."""
        _check_user(user)
        account = self._key(account_of(user))
        key = make_key(USER)
        content = {**_USER_LIMITS, **_user_permissions(user)}
        if account_of(user) not in (SYSTEM_ACCOUNT, SERVICES_ACCOUNT):
            content["subs"] = SUBSCRIPTIONS_MAX
        if expires_s:
            content["exp"] = int(time.time()) + expires_s
        jwt = sign_claims("user", user, key.public, account, content)
        credentials = Credentials(jwt, key)
        _write(self.credentials_path(user), credentials.render())
        _write(self._issued_path(user, key.public), jwt)
        return credentials

    def revoke(self, user: str, *, keeps_newest: bool) -> str:
        """Revoke the keys that a user was given, and return the JWT of its account to deploy.

        With `keeps_newest`, all but that in its file.
        """
        newest = self.credentials(user).key.public if keeps_newest else ""
        account = account_of(user)
        revocations = dict(self._revocations(account))
        for path in self._issued_path(user, "x").parent.glob("*.jwt"):
            claims = read_claims(path.read_text().strip())
            if claims["sub"] != newest:
                revocations[claims["sub"]] = int(time.time()) + 1
        jwt = self._sign_account(account, user, revocations)
        self.write_server_config()
        return jwt

    def credentials(self, user: str) -> Credentials:
        """Return a user's newest credentials. Raises Refused `no_user` if there are none."""
        try:
            return parse_credentials(self.credentials_path(user).read_text())
        except FileNotFoundError as error:
            raise Refused("no_user", f"{self.folder} has no credentials of {user}") from error

    def users(self) -> list[UserKey]:
        """Return all users with their newest credentials, by name."""
        users = []
        for path in sorted(self.credentials_folder.glob("*.creds")):
            credentials = self.credentials(path.stem)
            account = account_of(path.stem)
            users.append(
                UserKey(
                    path.stem,
                    account,
                    credentials.key.public,
                    int(credentials.claims["iat"]),
                    credentials.expires_at_s,
                    credentials.key.public in self._revocations(account),
                    path,
                )
            )
        return users

    def account_jwts(self) -> dict[str, str]:
        """Return the JWTs of all accounts, by their public keys."""
        jwts = (path.read_text().strip() for path in sorted(self._accounts.glob("*.jwt")))
        return {str(read_claims(jwt)["sub"]): jwt for jwt in jwts}

    def server_settings(self, resolver_folder: str) -> dict[str, object]:
        """Return the settings by which a nats-server knows our operator and accounts.

        It keeps accounts that it is given later in `resolver_folder`.
        """
        operator = self._key("operator")
        return {
            "operator": sign_claims("operator", OPERATOR_NAME, operator.public, operator, {}),
            "system_account": self._key(SYSTEM_ACCOUNT).public,
            "resolver": {
                "type": "full",
                "dir": resolver_folder,
                "allow_delete": False,
                "interval": "2m",
                "timeout": "1s",
            },
            "resolver_preload": self.account_jwts(),
        }

    def write_server_config(self) -> None:
        """Write `bus.conf`, which a nats-server's configuration includes."""
        settings = self.server_settings(ACCOUNTS_VARIABLE)
        text = "".join(
            f"{name}: {json.dumps(value, indent=2)}\n" for name, value in settings.items()
        )
        # A variable in quotes is a text.
        text = text.replace(json.dumps(ACCOUNTS_VARIABLE), ACCOUNTS_VARIABLE)
        _write(
            self.server_config, f"# Made by `warpboard server keys`; no secret is in it.\n{text}"
        )

    @property
    def _accounts(self) -> Path:
        return self.folder / "accounts"

    def _account_path(self, account: str) -> Path:
        return self._accounts / f"{account}.jwt"

    def _seed_path(self, name: str) -> Path:
        return self.folder / "seeds" / f"{name}.seed"

    def _issued_path(self, user: str, public: str) -> Path:
        return self.folder / "issued" / user / f"{public}.jwt"

    def _key(self, name: str) -> Key:
        try:
            return read_key(self._seed_path(name).read_text().strip())
        except FileNotFoundError as error:
            reason = f"{self.folder} has no key of {name}: run warpboard server keys make"
            raise Refused("no_keys", reason) from error

    def _revocations(self, account: str) -> Mapping[str, int]:
        path = self._account_path(account)
        if not path.exists():
            return {}
        revocations: Mapping[str, int] = read_claims(path.read_text())["nats"].get(
            "revocations", {}
        )
        return revocations

    def _sign_account(self, account: str, user: str, revocations: Mapping[str, int]) -> str:
        """Sign what an account may do and which users it takes back, and keep it."""
        content: dict[str, Any] = {"limits": dict(_LIMITS), "revocations": dict(revocations)}
        if account == SERVICES_ACCOUNT:
            content["limits"] |= _JETSTREAM
            content["exports"] = [_export(right) for right in exports()]
        elif account != SYSTEM_ACCOUNT:
            services = self._key(SERVICES_ACCOUNT).public
            content["imports"] = [
                {"name": subject, "subject": subject, "account": services, "type": "service"}
                for subject in allowed(user_rights(user), PUBLISH)
            ]
            content["limits"] |= {"conn": CONNECTIONS_MAX, "subs": SUBSCRIPTIONS_MAX}
        key = self._key(account)
        jwt = sign_claims("account", account, key.public, self._key("operator"), content)
        _write(self._account_path(account), jwt)
        return jwt


def _export(right: permissions.Right) -> dict[str, object]:
    response = "Stream" if right.is_stream else "Singleton"
    return {
        "name": right.subject,
        "subject": right.subject,
        "type": "service",
        "response_type": response,
    }


def _user_permissions(user: str) -> dict[str, object]:
    if user == SYSTEM_USER:
        return {"pub": {"allow": list(SYSTEM_RIGHTS)}, "sub": {"allow": [f"_INBOX_{user}.>"]}}
    rights = user_rights(user)
    return {verb[:3]: {"allow": allowed(rights, verb)} for verb in (PUBLISH, SUBSCRIBE)}


def _check_user(user: str) -> None:
    if user == SYSTEM_USER:
        return
    try:
        user_rights(user)
    except ValueError as error:
        raise Refused("bad_user", str(error)) from error


def _write(path: Path, text: str) -> None:
    write_private(path, text.rstrip("\n").encode() + b"\n")
