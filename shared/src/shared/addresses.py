"""Check where a participant may let us send requests: https URLs on the public internet."""

import re
import socket
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from shared.errors import Refused

URL_LENGTH_MAX = 2048
LOCAL_ADVICE = "only `warpboard up --local-webhooks` lets webhooks lead to the platform's machine"
PORTS = {"https": 443, "http": 80}
# Characters that all clients read alike: no blanks, control characters or backslashes.
_URL_CHARACTERS = re.compile(r"[!-\[\]-~]+\Z")
_DNS_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\Z")
# Resolvers take these for numeric addresses: 2130706433, 0x7f.1, 0177.0.0.1.
_NUMERIC_LABEL = re.compile(r"(0x[0-9a-f]*|[0-9]+)\Z")
# Global unicast addresses; all others embed another address or are unassigned.
_UNICAST = IPv6Network("2000::/3")
_EXCLUDED_IPV6 = (
    IPv6Network("2001::/23"),
    IPv6Network("2001:db8::/32"),
    IPv6Network("2002::/16"),
    IPv6Network("3fff::/20"),
)
_EXCLUDED_IPV4 = (IPv4Network("192.88.99.0/24"),)


class RequestTarget(NamedTuple):
    """The destination of a request: the parts of a URL, always with a port."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The host as written in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def is_public(address: str) -> bool:
    """Return whether this is a machine on the public internet, without an embedded address.

    >>> is_public("1.1.1.1"), is_public("::ffff:1.1.1.1"), is_public("169.254.169.254")
    (True, False, False)
    """
    ip = ip_address(address)
    if not ip.is_global or ip.is_multicast or ip.is_reserved:
        return False
    if ip.version == 4:
        return not any(ip in network for network in _EXCLUDED_IPV4)
    return ip in _UNICAST and not any(ip in network for network in _EXCLUDED_IPV6)


def is_loopback(address: str) -> bool:
    """Return whether this is the local machine.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("10.0.0.1")
    (True, True, False)
    """
    return ip_address(address).is_loopback


def is_own(address: str) -> bool:
    """Return whether this machine has the address, by the source that the system would send from.

    Nothing is sent: connecting a datagram socket only chooses the route.

    >>> is_own("127.0.0.1"), is_own("1.1.1.1")
    (True, False)
    """
    family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, PORTS["https"]))
        except OSError:  # Without a route, no connection is possible.
            return False
        return str(probe.getsockname()[0]) == address


def parse_target(url: str, *, is_local: bool) -> RequestTarget:
    """Parse a participant's URL; `is_local` allows URLs on the local machine.

    The address its host resolves to is checked when a request is sent. Errors: Refused
    `invalid_url`.
    """
    try:
        parts = urlsplit(url if _URL_CHARACTERS.match(url) and len(url) <= URL_LENGTH_MAX else "")
        host, port = (parts.hostname or "").removesuffix("."), parts.port
    except ValueError as error:
        raise _invalid_url("it is not a URL") from error
    if parts.scheme not in PORTS or not host or port == 0:
        raise _invalid_url("expected a URL in plain ASCII such as https://example.org/hook")
    if "@" in parts.netloc or parts.fragment:
        raise _invalid_url("it must have no user name, password or fragment")
    is_local_host = _is_local_host(host)
    if is_local_host and not is_local:
        raise _invalid_url(f"{host} is not on the public internet; {LOCAL_ADVICE}")
    if parts.scheme != "https" and not is_local_host:
        raise _invalid_url("expected https://")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return RequestTarget(parts.scheme, host, port or PORTS[parts.scheme], path)


def _is_local_host(host: str) -> bool:
    """Return whether a host is this machine. Errors: Refused if it is neither that nor public."""
    if host == "localhost":
        return True
    try:
        address = str(ip_address(host))
    except ValueError:
        labels = host.split(".")
        if _NUMERIC_LABEL.match(labels[-1]) or not all(_DNS_LABEL.match(label) for label in labels):
            reason = f"{host} is not a host: write a name, or an address like 192.0.2.1"
            raise _invalid_url(reason) from None
        return False
    if is_loopback(address):
        return True
    if not is_public(address):
        raise _invalid_url(f"{host} is not on the public internet")
    return False


def _invalid_url(reason: str) -> Refused:
    return Refused("invalid_url", f"a webhook cannot have this URL: {reason}", "url")
