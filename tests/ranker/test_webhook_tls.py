"""A webhook's server needs the certificate of its name, although requests go to its address."""

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ranker.webhooks.sender import WebhookClient
from tests.ranker.test_webhook_client import Names, letter
from tests.support.receiver import Receiver, run_receiver

HOST = "hooks.example.org"
MAKE = (
    *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
    *("-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"),
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a certificate for the host, with its key in the same folder."""
    folder = tmp_path_factory.mktemp("tls")
    files = ("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"))
    try:
        subprocess.run([*MAKE, *files], check=True, capture_output=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return folder


@pytest.fixture
def secured(certificate: Path) -> Iterator[Receiver]:
    """A receiver with TLS for the host."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    with run_receiver(tls) as server:
        yield server


@pytest.mark.server
@pytest.mark.parametrize(("host", "status"), [(HOST, 204), ("other.example.org", None)])
async def test_the_certificate_must_be_the_names(
    secured: Receiver, certificate: Path, host: str, status: int | None
) -> None:
    port = secured.url.rpartition(":")[2]
    trusting = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    post = WebhookClient(is_local=True, tls=trusting, resolvers=Names(["127.0.0.1"]))
    outcome = await post.send(letter(f"https://{host}:{port}/in"))
    assert outcome.status == status
    assert ("certificate" in str(outcome.error)) == (status is None)
    assert len(secured.requests) == (status == 204)


@pytest.mark.server
async def test_a_certificate_that_nobody_vouches_for_is_refused(secured: Receiver) -> None:
    port = secured.url.rpartition(":")[2]
    post = WebhookClient(is_local=True, resolvers=Names(["127.0.0.1"]))
    outcome = await post.send(letter(f"https://{HOST}:{port}/in"))
    assert "certificate" in str(outcome.error)
    assert not secured.requests
