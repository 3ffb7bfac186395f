"""Where a stranger may have us send something: an https URL on the public internet."""

import re
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from shared.errors import Refused

URL_LENGTH_MAX = 2048
PORTS = {"https": 443, "http": 80}
# What a client and we would read alike: no blank, no control character, no backslash.
_PLAIN = re.compile(r"[!-\[\]-~]+\Z")
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\Z")
# Whoever resolves names takes these for numbers: 2130706433, 0x7f.1, 0177.0.0.1.
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)\Z")
# The addresses of machines; all else carries others inside, or is nobody's.
_UNICAST = IPv6Network("2000::/3")
_ODD_IPV6 = (
    IPv6Network("2001::/23"),
    IPv6Network("2001:db8::/32"),
    IPv6Network("2002::/16"),
    IPv6Network("3fff::/20"),
)
_ODD_IPV4 = (IPv4Network("192.88.99.0/24"),)


class Target(NamedTuple):
    """Where a request goes: the parts of a URL, the port always named."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The host as the header Host says it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def is_public(address: str) -> bool:
    """Whether this is a machine on the public internet, under no disguise.

    >>> is_public("1.1.1.1"), is_public("::ffff:1.1.1.1"), is_public("169.254.169.254")
    (True, False, False)
    """
    found = ip_address(address)
    if not found.is_global or found.is_multicast or found.is_reserved:
        return False
    if found.version == 4:
        return not any(found in odd for odd in _ODD_IPV4)
    return found in _UNICAST and not any(found in odd for odd in _ODD_IPV6)


def is_loopback(address: str) -> bool:
    """Whether this is the machine itself.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("10.0.0.1")
    (True, True, False)
    """
    return ip_address(address).is_loopback


def target(url: str, *, is_local: bool) -> Target:
    """Where a participant's URL leads; `is_local` lets them name their own machine.

    What its name resolves to is looked at when something is sent. Errors: Refused `invalid_url`.
    """
    try:
        parts = urlsplit(url if _PLAIN.match(url) and len(url) <= URL_LENGTH_MAX else "")
        host, port = (parts.hostname or "").removesuffix("."), parts.port
    except ValueError as error:
        raise _refused("it is no URL") from error
    if parts.scheme not in PORTS or not host or port == 0:
        raise _refused("expected a URL in plain ASCII such as https://example.org/hook")
    if "@" in parts.netloc or parts.fragment:
        raise _refused("it must have no user name, no password and no fragment")
    is_here = _is_here(host)
    if is_here and not is_local:
        raise _refused(f"{host} is no address of the public internet")
    if parts.scheme != "https" and not is_here:
        raise _refused("expected https://")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port or PORTS[parts.scheme], path)


def _is_here(host: str) -> bool:
    """Whether a host is this machine. Errors: Refused for what is neither that nor public."""
    if host == "localhost":
        return True
    try:
        address = str(ip_address(host))
    except ValueError:
        labels = host.split(".")
        if _NUMBER.match(labels[-1]) or not all(_NAME.match(label) for label in labels):
            raise _refused(f"{host} is no host: write a name, or an address as 192.0.2.1") from None
        return False
    if is_loopback(address):
        return True
    if not is_public(address):
        raise _refused(f"{host} is no address of the public internet")
    return False


def _refused(why: str) -> Refused:
    return Refused("invalid_url", f"this URL cannot be told anything: {why}", "url")
