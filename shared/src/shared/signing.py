"""Verdict signatures: an agent signs each verdict with a key that only its host has.

An agent that a launcher starts for one job gets its key in a sealed credential.
"""

import base64
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from nacl.exceptions import CryptoError
from nacl.secret import SecretBox
from nacl.signing import SigningKey

from shared.errors import Refused
from shared.private_files import create_private_folder
from shared.verdicts import verdict_message

SEED_BYTES = 32
# The settings of an agent that hold a sealed credential and the key that opens it.
CREDENTIAL_SETTINGS = ("CREDENTIAL", "CREDENTIAL_KEY")
CREDENTIAL_KEY_BYTES = SecretBox.KEY_SIZE
_GROUP_AND_OTHERS = 0o077


def make_key(path: Path) -> SigningKey:
    """Generate a key in a file that only its owner can read; an existing key stays.

    The file appears complete or not at all, so that two processes at their first start agree.
    """
    create_private_folder(path.parent)
    temporary_path = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    descriptor = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.b64encode(secrets.token_bytes(SEED_BYTES)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary_path, path)
    finally:
        temporary_path.unlink()
    return _read_key(path)


def load_key(path: Path) -> SigningKey:
    """Load the key in a file, creating it on the first call.

    Errors: Refused `bad_key` if others can read the file, or it contains no key.
    """
    return _read_key(path) if path.exists() else make_key(path)


def _read_key(path: Path) -> SigningKey:
    if path.stat().st_mode & _GROUP_AND_OTHERS:
        raise Refused(
            "bad_key", f"others can read {path}: chmod 600 it, or remove it to get a new key"
        )
    try:
        return SigningKey(base64.b64decode(path.read_bytes().strip(), validate=True))
    except (ValueError, CryptoError) as error:
        raise Refused("bad_key", f"{path} is not a key: remove it to get a new one") from error


def public_key(key: SigningKey) -> str:
    """Return the key that checks signatures, base64: `AgentEnrolled.sign_key`."""
    return base64.b64encode(bytes(key.verify_key)).decode()


def sign_verdict(key: SigningKey, aggregate: str, token: int, data: bytes) -> str:
    """Sign a run's verdict; base64, the `sig` of its RunCompleted.

    `aggregate` is the run, `token` the sequence of its JobAssigned, `data` the raw bytes of the
    event's data, so that no canonical form of JSON is needed.
    """
    return base64.b64encode(key.sign(verdict_message(aggregate, token, data)).signature).decode()


def seal_credential(settings: Mapping[str, str], key_b64: str) -> str:
    """Encrypt the settings of an agent, so that only a holder of the key can read them; base64.

    Raises Refused `bad_settings` if it is not a key.
    """
    text = json.dumps(dict(settings)).encode()
    return base64.b64encode(_credential_box(key_b64).encrypt(text)).decode()


def open_credential(sealed: str, key_b64: str) -> dict[str, str]:
    """Return the settings in a credential. Raises Refused `bad_settings` for a wrong key or text.

    >>> key = base64.b64encode(bytes(32)).decode()
    >>> open_credential(seal_credential({"ID": "local-1"}, key), key)
    {'ID': 'local-1'}
    """
    box = _credential_box(key_b64)
    try:
        settings: dict[str, str] = json.loads(box.decrypt(base64.b64decode(sealed, validate=True)))
    except (ValueError, CryptoError) as error:
        reason = "the credential cannot be opened: expected the key with which it was sealed"
        raise Refused("bad_settings", reason) from error
    return settings


def _credential_box(key_b64: str) -> SecretBox:
    try:
        return SecretBox(base64.b64decode(key_b64, validate=True))
    except (ValueError, TypeError, CryptoError) as error:
        reason = f"the key of a credential is {CREDENTIAL_KEY_BYTES} bytes in base64"
        raise Refused("bad_settings", reason) from error
