"""Checks the servers that a service's environment names: `python -m shared.server_checks PREFIX`.

It prints a line for each problem, which begins with the setting, and ends with 0, or 2 if there is
one. `warpboard server doctor` runs it for each service, with that service's own credentials.
"""

import asyncio
import ssl
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from urllib.parse import urlsplit

from shared.bus_keys.login import BusLogin
from shared.clock import now
from shared.errors import Failed, Refused
from shared.nats.certificates import (
    read_ca_expiry,
    read_credentials_expiry,
    read_server_expiry,
)
from shared.nats.connection import connect
from shared.nats.streams import inspect_streams
from shared.postgres import TlsServer, find_database_problems, read_tls_servers
from shared.settings import read_variables

SKEW_S_MAX = 1.0
BUS_S_MAX = 5.0
TLS_S_MAX = 5.0
# As the alert CertificateExpires.
CERTIFICATE_DAYS_MIN = 14
DAY_S = 86_400
# How a client of Postgres asks for TLS: the length of the request, and its code.
POSTGRES_TLS_REQUEST = bytes.fromhex("0000000804d2162f")
RENEW = "warpboard server keys certificate makes a new one"
# The others may read no settings of streams.
STREAM_READERS = ("WARPBOARD_INGEST", "WARPBOARD_RANKER", "WARPBOARD_SCHEDULER")


async def find_bus_problems(prefix: str, environ: Mapping[str, str]) -> AsyncIterator[str]:
    """Yield what is wrong with the bus: unreachable servers, streams, clocks, certificates."""
    setting = f"{prefix}_NATS_URL"
    url = environ.get(setting, "")
    if not url:
        return
    login = BusLogin(
        url, environ.get(f"{prefix}_NATS_CREDENTIALS", ""), environ.get(f"{prefix}_NATS_CA", "")
    )
    try:
        nc = await connect(login, "doctor", within_s=BUS_S_MAX)
    except (Failed, Refused) as error:
        yield f"{setting}: {error}"
        return
    try:
        texts = [text async for text in _find_expiries(login)]
        if prefix in STREAM_READERS:
            texts += _describe_streams(*await inspect_streams(nc))
    except Failed as failed:
        texts = [str(failed)]
    finally:
        await nc.close()
    for text in texts:
        yield f"{setting}: {text}"


def _describe_streams(problems: list[str], time_at_server: datetime | None) -> Iterator[str]:
    """Yield streams with other settings, and a wrong clock."""
    yield from problems
    skew_s = (now() - (time_at_server or now())).total_seconds()
    if abs(skew_s) > SKEW_S_MAX:
        side = "ahead of" if skew_s > 0 else "behind"
        yield (
            f"the clock of this machine is {abs(skew_s):.1f} s {side} that of NATS: "
            "run NTP on both, for example systemctl enable --now systemd-timesyncd"
        )


async def _find_expiries(login: BusLogin) -> AsyncIterator[str]:
    """Yield which servers cannot be reached, and which certificates or credentials end soon."""
    keys = "warpboard server keys"
    at_s = read_credentials_expiry(login)
    for problem in _describe_expiry("the credentials", at_s, f"{keys} rotate makes new ones"):
        yield problem
    page = "see docs/operating/certificate-expiry.md"
    for problem in _describe_expiry("the CA", read_ca_expiry(login), page):
        yield problem
    members = (login._replace(url=address) for address in login.url.split(","))
    for problems in await asyncio.gather(*map(_find_member_problems, members)):
        for problem in problems:
            yield problem


async def _find_member_problems(member: BusLogin) -> list[str]:
    """Return whether one NATS server cannot be reached, or its certificate ends soon."""
    try:
        nc = await connect(member, "doctor", within_s=BUS_S_MAX)
    except (Failed, Refused) as error:
        return [str(error)]
    try:
        subject = f"the certificate of {member.hosts}"
        expires_at_s = read_server_expiry(nc)
        return [*_describe_expiry(subject, expires_at_s, RENEW)]
    finally:
        await nc.close()


async def find_postgres_certificate_problems(dsn: str) -> AsyncIterator[str]:
    """Yield which Postgres servers cannot be reached with TLS, or whose certificate ends soon.

    Only a DSN that verifies certificates is checked.
    """
    for server in read_tls_servers(dsn):
        name = f"{server.host}:{server.port}"
        try:
            async with asyncio.timeout(TLS_S_MAX):
                expires_at_s = await _read_postgres_expiry(server)
        except (OSError, EOFError, TimeoutError) as error:
            yield f"{name} cannot be reached with TLS: {str(error) or 'no answer'}"
            continue
        for problem in _describe_expiry(f"the certificate of {name}", expires_at_s, RENEW):
            yield problem


async def _read_postgres_expiry(server: TlsServer) -> float:
    """Return when the certificate of a server expires. Raises OSError, EOFError."""
    context = ssl.create_default_context(cafile=server.ca)
    context.check_hostname = server.is_name_verified
    reader, writer = await asyncio.open_connection(server.address, server.port)
    try:
        writer.write(POSTGRES_TLS_REQUEST)
        if await reader.readexactly(1) != b"S":
            raise OSError("the server has no TLS")
        await writer.start_tls(context, server_hostname=server.host)
        return float(ssl.cert_time_to_seconds(writer.get_extra_info("peercert")["notAfter"]))
    finally:
        await _drop_connection(writer)


async def _drop_connection(writer: asyncio.StreamWriter) -> None:
    """Close a connection without the end of TLS, for which a peer may let us wait."""
    writer.transport.abort()
    # The event loop closes the socket in its next turn.
    await asyncio.sleep(0)


def _describe_expiry(subject: str, expires_at_s: float | None, fix: str) -> Iterator[str]:
    if expires_at_s is None:
        return
    days = (expires_at_s - time.time()) / DAY_S
    if days < CERTIFICATE_DAYS_MIN:
        yield f"{subject} ends in {days:.0f} days: {fix}"


async def find_certificate_problems(prefix: str, environ: Mapping[str, str]) -> AsyncIterator[str]:
    """Yield whether the certificate of the public address is wrong or ends soon."""
    setting = f"{prefix}_PUBLIC_URL"
    url = urlsplit(environ.get(setting, ""))
    if url.scheme != "https" or not url.hostname:
        return
    host, port = url.hostname, url.port or 443
    try:
        async with asyncio.timeout(TLS_S_MAX):
            _, writer = await asyncio.open_connection(host, port, ssl=ssl.create_default_context())
    except (OSError, TimeoutError) as error:
        yield f"{setting}: {host}:{port} cannot be reached with TLS: {str(error) or 'no answer'}"
        return
    certificate = writer.get_extra_info("peercert")
    await _drop_connection(writer)
    expires_at_s = ssl.cert_time_to_seconds(certificate["notAfter"])
    for problem in _describe_expiry(f"the certificate of {host}", expires_at_s, "renew it"):
        yield f"{setting}: {problem}"


async def find_problems(prefix: str, environ: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the servers that the settings of one service name."""
    problems = [problem async for problem in find_bus_problems(prefix, environ)]
    problems += [problem async for problem in find_certificate_problems(prefix, environ)]
    setting = f"{prefix}_POSTGRES_DSN"
    if dsn := environ.get(setting):
        texts = await asyncio.to_thread(find_database_problems, dsn)
        texts += [text async for text in find_postgres_certificate_problems(dsn)]
        problems += [f"{setting}: {problem}" for problem in texts]
    return problems


def main() -> int:
    """Print the problems; return the exit code."""
    (prefix,) = sys.argv[1:]
    problems = asyncio.run(find_problems(prefix, read_variables(prefix)))
    sys.stdout.write("".join(f"{' '.join(problem.split())}\n" for problem in problems))
    return 2 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
