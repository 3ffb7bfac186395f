"""A small CA for the servers of one platform: NATS, Postgres, and proxies that use it."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from shared.bus_keys.files import write_private
from shared.errors import Refused

CA_DAYS, SERVER_DAYS = 3650, 398
# Clocks of other hosts may be late.
EARLIER_S = 3600
CA_NAME = "Warpboard CA"


class Certificate(NamedTuple):
    """A certificate in the folder: its name, its hosts, and when it expires."""

    name: str
    hosts: list[str]
    expires_at: datetime
    path: Path


class CertificateFolder:
    """The CA and the certificates in a folder; `ca.key` must not leave it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def ca(self) -> Path:
        """The certificate of the CA, which every client needs."""
        return self.folder / "ca.pem"

    def create_ca(self) -> None:
        """Make the CA if there is none. An existing one stays."""
        if self.ca.exists():
            return
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(CA_NAME)
        builder = _builder(name, name, key.public_key(), CA_DAYS)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        usage = _key_usage(signs_certificates=True)
        certificate = builder.add_extension(usage, critical=True).sign(key, hashes.SHA256())
        self._write("ca", certificate, key)

    def issue(self, name: str, hosts: Sequence[str], days: int = SERVER_DAYS) -> Path:
        """Make or replace a server's certificate and key for its names and addresses.

        Raises Refused `bad_name` or `bad_host`.
        """
        if name == "ca" or not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
            reason = f"{name!r} is not the name of a certificate: expected a word such as bus1"
            raise Refused("bad_name", reason, "name")
        if not hosts:
            reason = "a certificate needs the names or addresses by which clients reach the server"
            raise Refused("bad_host", reason, "hosts")
        self.create_ca()
        ca = x509.load_pem_x509_certificate(self.ca.read_bytes())
        ca_key = serialization.load_pem_private_key((self.folder / "ca.key").read_bytes(), None)
        assert isinstance(ca_key, ec.EllipticCurvePrivateKey), "we made it"
        key = ec.generate_private_key(ec.SECP256R1())
        # Members of a cluster show theirs to each other, as clients do.
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            _builder(_name(hosts[0][:64]), ca.subject, key.public_key(), days)
            .add_extension(x509.SubjectAlternativeName(_alternative_names(hosts)), False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), False
            )
            .sign(ca_key, hashes.SHA256())
        )
        return self._write(name, certificate, key)

    def list(self) -> list[Certificate]:
        """Return all certificates, by name."""
        certificates = []
        for path in sorted(self.folder.glob("*.pem")):
            certificate = x509.load_pem_x509_certificate(path.read_bytes())
            expires_at = certificate.not_valid_after_utc
            certificates.append(Certificate(path.stem, _hosts(certificate), expires_at, path))
        return certificates

    def _write(
        self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
    ) -> Path:
        key_text = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        write_private(self.folder / f"{name}.key", key_text)
        path = self.folder / f"{name}.pem"
        write_private(path, certificate.public_bytes(serialization.Encoding.PEM))
        return path


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(seconds=EARLIER_S))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    """Return names and addresses as certificates have them. Raises Refused."""
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            if not _is_host(host):
                reason = (
                    f"{host!r} is not a host: expected a name or an address, "
                    "such as bus1.example.org"
                )
                raise Refused("bad_host", reason, "hosts") from None
        # Members of a cluster compare their routes with names only, also if a route has an address.
        names.append(x509.DNSName(host))
    return names


def _is_host(name: str) -> bool:
    return name.isascii() and name.replace("-", "").replace(".", "").replace("*", "").isalnum()


def _hosts(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return list(dict.fromkeys(str(name.value) for name in names))
