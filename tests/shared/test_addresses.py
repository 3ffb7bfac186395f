"""Nothing is sent to addresses outside the public internet, however they are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.addresses import RequestTarget, is_public, parse_target
from shared.errors import Refused

PRIVATE = [
    *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1"),
    *("169.254.169.254", "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1"),
    *("203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
    *("192.88.99.1", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254"),
    *("fec0::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:169.254.169.254"),
    *("::127.0.0.1", "::8.8.8.8", "64:ff9b::7f00:1", "64:ff9b::8.8.8.8", "64:ff9b:1::a00:1"),
    *("2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:4136:e378::1", "2001:db8::1", "100::1"),
    *("3fff::1", "5f00::1", "4000::1"),
]
NUMBERS = ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1", "1.2.3.4.5", "10.0.0.08"]


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_public_is_told(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "2a00:1450:4001::1"])
def test_what_is_public_is_told(address: str) -> None:
    assert is_public(address)


@given(st.ip_addresses(v=6))
def test_an_address_that_carries_another_is_never_public(address: object) -> None:
    mapped = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
    assert not (is_public(str(address)) and (mapped or getattr(address, "teredo", None)))


@pytest.mark.parametrize("address", [one for one in PRIVATE if ":" not in one])
def test_an_address_that_is_not_public_is_no_target(address: str) -> None:
    with pytest.raises(Refused, match="public internet"):
        parse_target(f"https://{address}/", is_local=False)


@pytest.mark.parametrize("address", [one for one in PRIVATE if ":" in one])
def test_one_of_ipv6_is_none_either(address: str) -> None:
    with pytest.raises(Refused):
        parse_target(f"https://[{address}]/", is_local=False)


@pytest.mark.parametrize("host", NUMBERS)
@pytest.mark.parametrize("is_local", [True, False])
def test_a_number_in_disguise_is_no_host(host: str, is_local: bool) -> None:
    with pytest.raises(Refused, match="is not a host"):
        parse_target(f"https://{host}/", is_local=is_local)


@pytest.mark.parametrize(
    "url",
    [
        *("", "x", "ftp://x.org", "//x.org/", "https://", "https:///in", "http://x.org/in"),
        *("https://user@x.org/", "https://a:b@x.org/", "https://x.org/#f", "https://x.org:0/"),
        *("https://x.org:99999/", "https://x.org:a/", "https://x\\.org/", "https://x.org/ y"),
        *("https://x.org/\n", "https://é.org/", "https://[::1/", "https://x..org/", "https://-x/"),
        *("https://localhost/", "http://localhost:8080/", "http://127.0.0.1/", "https://[::1]/"),
        *("https://evil.org\\@good.org/", "javascript:alert(1)", "https://" + "x" * 3000),
    ],
)
def test_what_is_no_https_url_is_refused(url: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_target(url, is_local=False)
    assert (refused.value.code, refused.value.field) == ("invalid_url", "url")


@pytest.mark.parametrize("url", ["http://10.0.0.1/", "http://x.org/", "https://192.168.0.1/"])
def test_even_ones_own_machine_reaches_no_other_that_way(url: str) -> None:
    with pytest.raises(Refused):
        parse_target(url, is_local=True)


def test_a_url_says_where_it_leads() -> None:
    assert parse_target("https://x.org", is_local=False) == RequestTarget(
        "https", "x.org", 443, "/"
    )
    parsed = parse_target("https://X.org.:8443/a?b=c", is_local=False)
    assert (parsed, parsed.authority) == (
        RequestTarget("https", "x.org", 8443, "/a?b=c"),
        "x.org:8443",
    )
    here = parse_target("http://[::1]:9/", is_local=True)
    assert (here.host, here.authority) == ("::1", "[::1]:9")
