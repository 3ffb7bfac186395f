"""Snapshots signed with the key with which their service logs in to the bus.

A fold starts from its snapshot, so whoever could change one in the store could change what a
service knows, such as who is an operator. The permissions of the bus keep other users from it; the
signature also keeps those from it who can write the store's files.
"""

import base64
import hashlib
import logging
from dataclasses import dataclass

import msgspec
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from shared.blobs import Snapshots
from shared.bus_keys.claims import read_claims
from shared.bus_keys.login import BusLogin
from shared.errors import Refused

log = logging.getLogger(__name__)


class _Signed(msgspec.Struct, array_like=True):
    """A snapshot, the JWT of the user who made it, and that user's signature."""

    jwt: str
    signature: bytes
    data: bytes


@dataclass(frozen=True)
class SignedSnapshots:
    """Signs what it saves, and loads only what a user of its own name has signed.

    The user's JWT is that of the time when the snapshot was saved: the account of the services,
    which signed it, must be that of today's. An anonymous login signs nothing and accepts
    every snapshot: its servers have no accounts.
    """

    store: Snapshots
    login: BusLogin

    async def load(self, name: str) -> bytes | None:
        """Return the last saved bytes; None if there are none, or another user made them.

        Errors: Failed.
        """
        data, own = await self.store.load(name), self.login.read_credentials()
        if data is None or own is None:
            return data
        try:
            signed = msgspec.msgpack.decode(data, type=_Signed)
            signer = _verified_claims(signed.jwt)
            _verify(signer["sub"], _message(name, signed.data), signed.signature)
        except (msgspec.DecodeError, Refused, KeyError, ValueError, BadSignatureError) as error:
            log.warning("the snapshot %s is not signed as it should be: %s", name, error)
            return None
        if (signer["iss"], signer["name"]) != (own.claims["iss"], own.user):
            log.warning("the snapshot %s is signed by %r, not %r", name, signer["name"], own.user)
            return None
        return signed.data

    async def save(self, name: str, data: bytes) -> None:
        """Replace the saved bytes. Errors: Failed; ValueError above 250 MB."""
        own = self.login.read_credentials()
        if own is not None:
            signed = _Signed(own.jwt, own.key.sign(_message(name, data)), data)
            data = msgspec.msgpack.encode(signed)
        await self.store.save(name, data)


def _message(name: str, data: bytes) -> bytes:
    return b"warpboard snapshot\0" + name.encode() + b"\0" + hashlib.sha256(data).digest()


def _verified_claims(jwt: str) -> dict[str, str]:
    """Return the claims of a JWT, which its issuer has signed. Raises as `_verify`; Refused."""
    claims = read_claims(jwt)
    signed, _, signature = jwt.rpartition(".")
    padded = signature + "=" * (-len(signature) % 4)
    _verify(claims["iss"], signed.encode(), base64.urlsafe_b64decode(padded))
    return claims


def _verify(public: str, message: bytes, signature: bytes) -> None:
    """Check a signature of an NKey: a byte of its kind, the Ed25519 key, and a checksum.

    Raises BadSignatureError, or ValueError if this is no key.
    """
    key = base64.b32decode(public + "=" * (-len(public) % 8))[1:33]
    VerifyKey(key).verify(message, signature)
