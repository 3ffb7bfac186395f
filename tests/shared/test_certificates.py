"""The expiry of what a process shows and trusts on the bus, measured on a server with TLS."""

import time
from pathlib import Path

import pytest
from nats.aio.client import Client
from prometheus_client import CollectorRegistry

from shared import server_checks
from shared.bus_keys.certificates import CA_DAYS, CertificateFolder
from shared.bus_keys.claims import ACCOUNT, USER, Credentials, make_key, sign_claims
from shared.bus_keys.login import BusLogin
from shared.nats.certificates import CertificateMetrics
from shared.nats.connection import connect
from shared.server_checks import find_bus_problems
from shared.servers.nats import NatsServer
from tests.support.servers import skip_without_nats
from tests.support.waits import find_free_ports

pytestmark = pytest.mark.server

DAY_S, DAYS = 86_400, 9


class TlsServer(NatsServer):
    """A server with a certificate of a CA in its folder, for nine days."""

    def configuration(self) -> dict[str, object]:
        """The server's settings."""
        certificates = CertificateFolder(self.folder / "certificates")
        path = certificates.issue("bus", ["127.0.0.1"], DAYS)
        key = path.with_suffix(".key")
        return super().configuration() | {
            "tls": {"cert_file": str(path), "key_file": str(key)},
        }

    @property
    def tls_login(self) -> BusLogin:
        """How the ingest service logs in."""
        ca = CertificateFolder(self.folder / "certificates").ca
        credentials = self.authority.credentials_path("ingest")
        return BusLogin(f"tls://127.0.0.1:{self.port}", str(credentials), str(ca))


def measured_days(login: BusLogin, nc: Client) -> dict[str, int]:
    """In how many days what the metric shows expires, to the nearest day."""
    registry = CollectorRegistry()
    CertificateMetrics("ingest", login, nc, registry)
    [family] = registry.collect()
    assert family.name == "warpboard_ingest_certificate_expiry_timestamp_seconds"
    return {
        sample.labels["certificate"]: round((sample.value - time.time()) / DAY_S)
        for sample in family.samples
    }


def expiring_credentials(folder: Path, days: int) -> str:
    """The path of a user's credentials that expire in so many days."""
    account, user = make_key(ACCOUNT), make_key(USER)
    expires_at_s = int(time.time()) + days * DAY_S
    jwt = sign_claims("user", "ingest", user.public, account, {"exp": expires_at_s})
    path = folder / "ingest.creds"
    path.write_text(Credentials(jwt, user).render())
    return str(path)


async def test_each_process_measures_what_expires(tmp_path: Path) -> None:
    skip_without_nats()
    server = TlsServer(tmp_path / "nats")
    try:
        server.start()
        login = server.tls_login
        nc = await connect(login, "ingest")
        try:
            assert measured_days(login, nc) == {"nats_ca": CA_DAYS, "nats_server": DAYS}
            # Credentials that have expired are shown, for that is when they matter most.
            for days in (3, -1):
                credentials = expiring_credentials(tmp_path, days)
                shown = measured_days(login._replace(credentials=credentials), nc)
                assert shown["nats_credentials"] == days
        finally:
            await nc.close()
    finally:
        server.stop()


async def test_the_doctor_names_what_expires_soon_and_each_server_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without_nats()
    monkeypatch.setattr(server_checks, "BUS_S_MAX", 2.0)
    server = TlsServer(tmp_path / "nats")
    try:
        server.start()
        login = server.tls_login
        (nothing,) = find_free_ports(1)
        environ = {
            "WARPBOARD_LAUNCHER_NATS_URL": f"{login.url},tls://127.0.0.1:{nothing}",
            "WARPBOARD_LAUNCHER_NATS_CREDENTIALS": login.credentials,
            "WARPBOARD_LAUNCHER_NATS_CA": login.ca,
        }
        certificate, away = [
            problem async for problem in find_bus_problems("WARPBOARD_LAUNCHER", environ)
        ]
    finally:
        server.stop()
    assert f"the certificate of 127.0.0.1:{server.port} ends in {DAYS} days" in certificate
    assert f"no NATS server at 127.0.0.1:{nothing}" in away


def test_what_is_not_used_or_cannot_be_read_has_no_series(tmp_path: Path) -> None:
    nobody = Client()
    assert measured_days(BusLogin("nats://127.0.0.1:4222"), nobody) == {}
    missing = str(tmp_path / "missing")
    assert measured_days(BusLogin("nats://127.0.0.1:4222", missing, missing), nobody) == {}
