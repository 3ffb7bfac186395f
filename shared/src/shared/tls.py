"""The check of the servers that our processes connect to with TLS."""

import ssl
from pathlib import Path

from shared.errors import Failed

TEXT_PREFIX = "-----BEGIN"


def client_context(ca: str) -> ssl.SSLContext:
    """Return a context that trusts one CA; "" trusts the system's.

    `ca` is the path of a PEM file, or its text. Raises Failed if it is not one.
    """
    try:
        if ca.startswith(TEXT_PREFIX):
            return ssl.create_default_context(cadata=ca)
        return ssl.create_default_context(cafile=ca or None)
    except (OSError, ssl.SSLError) as error:
        name = "given" if ca.startswith(TEXT_PREFIX) else ca
        reason = error.strerror or str(error)
        raise Failed(f"the CA {name} cannot be read: {reason}: expected a PEM file") from error


def read_pem(ca: str) -> str:
    """Return the text of a CA that is given by its path or its text. Raises Failed."""
    if not ca or ca.startswith(TEXT_PREFIX):
        return ca
    try:
        return Path(ca).read_text()
    except (OSError, ValueError) as error:
        raise Failed(f"the CA {ca} cannot be read: {error}") from error
