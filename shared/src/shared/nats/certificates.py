"""When what a process shows and trusts on the bus expires, as a metric."""

import ssl
from collections.abc import Iterator

from nats.aio.client import Client
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from shared.bus_keys.claims import parse_credentials
from shared.bus_keys.login import BusLogin
from shared.errors import Failed, Refused
from shared.metrics import metric_prefix

CREDENTIALS, CA, SERVER = "nats_credentials", "nats_ca", "nats_server"


class CertificateMetrics(Collector):
    """The expiry of a process's credentials, its CA and its server's certificate.

    Files are read when scraped, as they are read for the next connection. What never expires, is
    not used or cannot be read has no series. A process that connects again for itself sets `nc`.
    """

    def __init__(
        self,
        service: str,
        login: BusLogin,
        nc: Client | None = None,
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        self._start = metric_prefix(service)
        self._login = login
        self.nc = nc
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the current times."""
        family = GaugeMetricFamily(
            f"{self._start}_certificate_expiry_timestamp_seconds",
            "When a certificate or credentials of the bus expire",
            labels=["certificate"],
        )
        expiries = {
            CREDENTIALS: read_credentials_expiry(self._login),
            CA: read_ca_expiry(self._login),
            SERVER: read_server_expiry(self.nc),
        }
        for name, expires_at_s in expiries.items():
            if expires_at_s is not None:
                family.add_metric([name], expires_at_s)
        yield family


def read_credentials_expiry(login: BusLogin) -> float | None:
    """Return when credentials expire or expired; None if that is unknown."""
    if not login.credentials:
        return None
    try:
        return parse_credentials(login.read_text()).expires_at_s
    except (OSError, ValueError, Refused):
        return None


def read_ca_expiry(login: BusLogin) -> float | None:
    """Return when the first certificate of our own CA file expires; None without one."""
    if not login.ca:
        return None
    try:
        trusted = login.tls().get_ca_certs()
    except Failed:
        return None
    return min((_expiry(certificate["notAfter"]) for certificate in trusted), default=None)


def read_server_expiry(nc: Client | None) -> float | None:
    """Return when the certificate of the server that we are connected to expires.

    The client does not say which one it was shown, but its transport's stream does.
    """
    stream = getattr(getattr(nc, "_transport", None), "_io_writer", None)
    certificate = stream.get_extra_info("peercert") if stream is not None else None
    return _expiry(certificate["notAfter"]) if certificate else None


def _expiry(not_after: object) -> float:
    return float(ssl.cert_time_to_seconds(str(not_after)))
