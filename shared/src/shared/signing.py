"""Who measured it: an agent signs each verdict with a key that its machine alone has."""

import base64
import binascii
import os
import secrets
from contextlib import suppress
from pathlib import Path

from nacl.exceptions import CryptoError
from nacl.signing import SigningKey, VerifyKey

from shared.errors import Refused

RUN = b"warpboard/run/1"
SEED_BYTES = 32
_OTHERS = 0o077


def make_key(path: Path) -> SigningKey:
    """Draw a key and keep it in a file for its owner alone; a key that is there stays.

    The file appears whole or not at all, so that two processes at their first start agree.
    """
    fresh = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.b64encode(secrets.token_bytes(SEED_BYTES)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        fresh.unlink()
    return _read(path)


def load_key(path: Path) -> SigningKey:
    """The key in a file, drawn at the first call.

    Errors: Refused `bad_key` for a file that others may read, or that holds no key.
    """
    return _read(path) if path.exists() else make_key(path)


def _read(path: Path) -> SigningKey:
    if path.stat().st_mode & _OTHERS:
        raise Refused(
            "bad_key", f"others may read {path}: chmod 600 it, or remove it for a new one"
        )
    try:
        return SigningKey(base64.b64decode(path.read_bytes().strip(), validate=True))
    except (ValueError, CryptoError) as error:
        raise Refused("bad_key", f"{path} is no key: remove it, and a new one is made") from error


def public_key(key: SigningKey) -> str:
    """What others need to check signatures, base64: `AgentEnrolled.sign_key`."""
    return base64.b64encode(bytes(key.verify_key)).decode()


def sign(key: SigningKey, agg: str, token: int, data: bytes) -> str:
    """The signature of a run's verdict, base64: `sig` of its RunCompleted.

    `agg` is the run, `token` the sequence of its JobAssigned, `data` the event's raw bytes of
    data: no canonical form of JSON is needed.
    """
    return base64.b64encode(key.sign(_message(agg, token, data)).signature).decode()


def verify(sign_key_b64: str, agg: str, token: int, data: bytes, sig_b64: str) -> bool:
    """Whether the holder of a key said this; False for what is no key or no signature at all.

    Source: 39 µs a call (spec/events.md, section 12), ten times all else that is done to an event.
    """
    try:
        key = VerifyKey(base64.b64decode(sign_key_b64, validate=True))
        key.verify(_message(agg, token, data), base64.b64decode(sig_b64, validate=True))
    except (ValueError, TypeError, binascii.Error, CryptoError):
        return False
    return True


def _message(agg: str, token: int, data: bytes) -> bytes:
    return b"\0".join((RUN, agg.encode(), str(token).encode(), data))
