"""Keys and streams in the age format, of which a host of backups has the public key alone."""

from pathlib import Path
from typing import Any, BinaryIO

import pyrage

from shared.errors import Refused
from shared.private_files import create_private_folder, open_private

HEADER = b"age-encryption.org/"


def make_identity(file: Path) -> str:
    """Write a new identity into a file that only its owner may read; returns its public key.

    Raises Refused if the file exists.
    """
    if file.exists():
        raise Refused("file_exists", f"{file} exists: name a new file", "file")
    identity = pyrage.x25519.Identity.generate()
    recipient = str(identity.to_public())
    create_private_folder(file.parent)
    with open_private(file) as out:
        out.write(f"# public key: {recipient}\n{identity}\n".encode())
    return recipient


def parse_recipient(text: str) -> Any:
    """Return a public key. Raises Refused."""
    try:
        return pyrage.x25519.Recipient.from_str(text.strip())
    except pyrage.RecipientError as error:
        reason = f"--recipient {text!r}: expected a public key such as age1…: {error}"
        raise Refused("bad_recipient", reason, "recipient") from error


def read_identity(file: Path) -> Any:
    """Return the secret key in a file. Raises Refused."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        (secret,) = [line for line in lines if line and not line.startswith("#")]
        return pyrage.x25519.Identity.from_str(secret.strip())
    except (OSError, ValueError, pyrage.IdentityError) as error:
        reason = f"{file} is not the secret key of backups: {error}"
        raise Refused("bad_identity", reason, "identity") from error


def decrypt_into(encrypted: BinaryIO, out: BinaryIO, key: Any, file: Path) -> None:
    """Decrypt a stream; `file` is its name in errors. Raises Refused, and OSError for damage."""
    try:
        pyrage.decrypt_io(encrypted, out, [key])
    except pyrage.DecryptError as error:
        if "No matching keys" in str(error):
            reason = (
                f"{file} was encrypted for another key: use the --identity that it was made for"
            )
            raise Refused("wrong_identity", reason, "identity") from error
        raise Refused("bad_backup", f"{file} is damaged: {error}", "file") from error
