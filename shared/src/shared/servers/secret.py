"""A generated password, kept in a file that only we may read."""

import secrets
from pathlib import Path


def fresh(path: Path) -> str:
    """Make a new password and keep it in the file."""
    password = secrets.token_urlsafe(24)
    path.touch(mode=0o600)
    path.write_text(password)
    return password


def kept(path: Path) -> str:
    """The password in the file, made at the first call."""
    return (path.exists() and path.read_text()) or fresh(path)
