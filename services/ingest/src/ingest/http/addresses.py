"""The network addresses of clients."""

from ipaddress import IPv6Address, ip_address

from fastapi import Request


def client_address(request: Request) -> str:
    """Return the address of the client; an IPv6 address as its /64 network."""
    host = request.client.host if request.client else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and not (address.ipv4_mapped or address.is_loopback):
        return str(IPv6Address(int(address) >> 64 << 64))
    return host
