"""Checks the servers that a service's environment names: `python -m shared.server_checks PREFIX`.

It prints a line for each problem, which begins with the setting, and ends with 0, or 2 if there is
one. `warpboard server doctor` runs it for each service, with that service's own credentials.
"""

import asyncio
import ssl
import sys
import time
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit

from shared.bus_keys.login import BusLogin
from shared.clock import now
from shared.errors import Failed, Refused
from shared.nats.connection import connect
from shared.nats.streams import inspect_streams
from shared.postgres import find_database_problems
from shared.settings import read_variables

SKEW_S_MAX = 1.0
BUS_S_MAX = 5.0
TLS_S_MAX = 5.0
CERTIFICATE_DAYS_MIN = 14
DAY_S = 86_400
# The others may read no settings of streams.
STREAM_READERS = ("WARPBOARD_INGEST", "WARPBOARD_RANKER", "WARPBOARD_SCHEDULER")


async def find_bus_problems(prefix: str, environ: Mapping[str, str]) -> AsyncIterator[str]:
    """Yield what is wrong with the bus: an unreachable server, other streams, a wrong clock."""
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
        if prefix not in STREAM_READERS:
            return
        problems, time_at_server = await inspect_streams(nc)
        for problem in problems:
            yield f"{setting}: {problem}"
        skew_s = (now() - (time_at_server or now())).total_seconds()
        if abs(skew_s) > SKEW_S_MAX:
            side = "ahead of" if skew_s > 0 else "behind"
            yield (
                f"{setting}: the clock of this machine is {abs(skew_s):.1f} s {side} that of NATS: "
                "run NTP on both, for example systemctl enable --now systemd-timesyncd"
            )
    except Failed as failed:
        yield f"{setting}: {failed}"
    finally:
        await nc.close()


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
    writer.close()
    days = (ssl.cert_time_to_seconds(certificate["notAfter"]) - time.time()) / DAY_S
    if days < CERTIFICATE_DAYS_MIN:
        yield f"{setting}: the certificate of {host} ends in {days:.0f} days: renew it"


async def find_problems(prefix: str, environ: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the servers that the settings of one service name."""
    problems = [problem async for problem in find_bus_problems(prefix, environ)]
    problems += [problem async for problem in find_certificate_problems(prefix, environ)]
    setting = f"{prefix}_POSTGRES_DSN"
    if dsn := environ.get(setting):
        texts = await asyncio.to_thread(find_database_problems, dsn)
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
