"""How a process logs in to the bus: addresses, credentials and the CA of its servers."""

import re
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from shared.bus_keys.claims import Credentials, parse_credentials
from shared.errors import Failed, Refused
from shared.tls import client_context, read_pem

# What a path has not: lines, or a seed. It may be secret.
_TEXT = re.compile(r"\n|BEGIN |SU[A-Z2-7]{56}")


class BusLogin(NamedTuple):
    """The addresses of the bus, separated by commas, and what a process shows there.

    `credentials` is the path of a `.creds` file, or its text. Without them the login is anonymous.
    `ca` is the path of a PEM file with the CA of the servers, or its text; "": the system's CAs.
    """

    url: str
    credentials: str = ""
    ca: str = ""

    @property
    def hosts(self) -> str:
        """The servers without anything secret."""
        return ", ".join(
            part.rpartition("@")[2].rpartition("://")[2] for part in self.url.split(",")
        )

    def __repr__(self) -> str:
        """Return what the login is for, without its text."""
        return f"BusLogin({self.hosts!r}, {self.source!r})"

    @property
    def is_text(self) -> bool:
        """Whether the credentials are given as text."""
        return _TEXT.search(self.credentials) is not None

    @property
    def source(self) -> str:
        """What messages call the credentials: they never show their text."""
        return "given" if self.is_text else self.credentials

    def read_text(self) -> str:
        """Return the text of the credentials as it is now. Raises OSError and ValueError."""
        return self.credentials if self.is_text else Path(self.credentials).read_text()

    def read_credentials(self) -> Credentials | None:
        """Return the credentials as they are now, None if the login is anonymous.

        Raises Failed if they cannot be read, are malformed or have expired.
        """
        if not self.credentials:
            return None
        try:
            credentials = parse_credentials(self.read_text())
        except (OSError, ValueError) as error:
            raise Failed(f"the bus credentials cannot be read: {error}") from error
        except Refused as refused:
            raise Failed(f"bus credentials {self.source}: {refused.reason}") from refused
        expires_at_s = credentials.expires_at_s
        if expires_at_s is not None and expires_at_s < datetime.now(UTC).timestamp():
            at = datetime.fromtimestamp(expires_at_s, UTC).isoformat(timespec="seconds")
            fix = f"make new ones with warpboard server keys rotate {credentials.user}"
            raise Failed(
                f"bus credentials {self.source} of {credentials.user} expired at {at}: {fix}"
            )
        return credentials

    def with_texts(self) -> "BusLogin":
        """Return the login for a process on another machine: with texts instead of paths.

        Raises Failed if a file cannot be read.
        """
        credentials = self.read_credentials()
        return BusLogin(self.url, credentials.render() if credentials else "", read_pem(self.ca))

    def tls(self) -> ssl.SSLContext:
        """Return how servers with TLS are checked. Raises Failed if there is no such CA."""
        return client_context(self.ca)
