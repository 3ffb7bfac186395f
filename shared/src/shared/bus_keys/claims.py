"""NATS JWTs: what an operator says about an account, and an account about a user.

The format is version 2 of https://github.com/nats-io/jwt, signed with NKeys (Ed25519). The package
nkeys is imported when it is used: a client alone comes without it.
"""

import base64
import hashlib
import json
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from shared.errors import Refused

# The kinds of NKeys, as their first byte has them.
OPERATOR, ACCOUNT, USER = 14 << 3, 0, 20 << 3
SEED_BYTES = 32
_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
_CREDENTIALS = re.compile(
    r"-+BEGIN NATS USER JWT-+\s+(?P<jwt>\S+)\s+-+END NATS USER JWT-+"
    r".*?-+BEGIN USER NKEY SEED-+\s+(?P<seed>\S+)\s+-+END USER NKEY SEED-+",
    re.DOTALL,
)
_CREDENTIALS_FORM = """\
-----BEGIN NATS USER JWT-----
{jwt}
------END NATS USER JWT------

************************* IMPORTANT *************************
Whoever has this file is this user: keep it secret.

-----BEGIN USER NKEY SEED-----
{seed}
------END USER NKEY SEED------
"""


class Key(NamedTuple):
    """A pair of NKeys; `seed` is the secret, `public` names it in JWTs."""

    seed: str
    public: str

    def __repr__(self) -> str:
        """Return the public key."""
        return f"Key({self.public})"

    def sign(self, data: bytes) -> bytes:
        """Return the Ed25519 signature of the data."""
        import nkeys

        signature: bytes = nkeys.from_seed(bytearray(self.seed.encode())).sign(data)
        return signature


def make_key(kind: int) -> Key:
    """Draw a key of an operator, an account or a user."""
    import nkeys

    return read_key(nkeys.encode_seed(secrets.token_bytes(SEED_BYTES), kind).decode())


def read_key(seed: str) -> Key:
    """Return the key of a seed. Raises Refused `bad_key` if it is not one."""
    import nkeys

    try:
        public = nkeys.from_seed(bytearray(seed.encode())).public_key
    except (nkeys.NkeysError, ValueError, IndexError) as error:
        raise Refused("bad_key", "expected the seed of an NKey, such as SUAB…") from error
    return Key(seed, public.decode().rstrip("="))


class Credentials(NamedTuple):
    """What a `.creds` file holds: the JWT of a user, and the key that proves who presents it."""

    jwt: str
    key: Key

    @property
    def claims(self) -> dict[str, Any]:
        """The claims of the JWT."""
        return read_claims(self.jwt)

    @property
    def user(self) -> str:
        """The name of the user, such as `scheduler`."""
        return str(self.claims["name"])

    @property
    def expires_at_s(self) -> int | None:
        """When the credentials expire, in seconds since 1970; None: never."""
        expires_at_s: int | None = self.claims.get("exp")
        return expires_at_s

    def render(self) -> str:
        """Return the text of a `.creds` file."""
        return _CREDENTIALS_FORM.format(jwt=self.jwt, seed=self.key.seed)


def parse_credentials(text: str) -> Credentials:
    """Parse the text of a `.creds` file. Raises Refused `bad_credentials`."""
    match = _CREDENTIALS.search(text)
    if match is None:
        expected = "expected a .creds file with BEGIN NATS USER JWT and BEGIN USER NKEY SEED"
        raise Refused("bad_credentials", expected)
    credentials = Credentials(match["jwt"], read_key(match["seed"]))
    if credentials.claims.get("sub") != credentials.key.public:
        raise Refused("bad_credentials", "the JWT is of another key than the seed beside it")
    return credentials


def sign_claims(kind: str, name: str, subject: str, issuer: Key, content: Mapping[str, Any]) -> str:
    """Return a JWT of a `kind` such as `user`, issued now. An `exp` in its content ends it."""
    claims: dict[str, Any] = {
        "iat": int(time.time()),
        "iss": issuer.public,
        "name": name,
        "sub": subject,
        "nats": {**content, "type": kind, "version": 2},
    }
    if "exp" in content:
        claims["exp"] = claims["nats"].pop("exp")
    digest = hashlib.sha256(_encode_json(claims)).digest()
    claims["jti"] = base64.b32encode(digest).decode().rstrip("=")
    signed = f"{_encode(_encode_json(_HEADER))}.{_encode(_encode_json(claims))}"
    return f"{signed}.{_encode(issuer.sign(signed.encode()))}"


def read_claims(jwt: str) -> dict[str, Any]:
    """Return the claims of a JWT, whose signature is not checked. Raises Refused `bad_jwt`."""
    try:
        _, body, _ = jwt.split(".")
        claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except ValueError as error:
        raise Refused("bad_jwt", "expected a JWT: three parts of base64 with dots") from error
    return claims


def _encode_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
