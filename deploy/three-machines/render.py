"""Write the files of each machine: `python render.py SITE.env FOLDER`.

FOLDER gets `a`, `b`, `c` and `agents/<id>`, each with an `etc` and an `install.sh`, and `secrets`,
which no machine needs as a whole. Secrets that exist are kept, so after a change of SITE.env or an
upgrade the same command writes the files again.
"""

import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from string import Template

from shared.bus_keys.authority import Authority
from shared.private_files import create_private_folder
from shared.signing import load_key

HERE = Path(__file__).parent
FILES = HERE / "files"
MACHINES = ("a", "b", "c")
SERVICES = ("a", "b")
BUS_USERS = ("ingest", "ranker", "scheduler", "maintenance")
# Where a nats-server keeps the accounts that it is given later.
ACCOUNTS = "/var/lib/warpboard/nats/accounts"
CERTIFICATE_DAYS = 825
CA_DAYS = 3650
# Of the roles of Postgres (docs/operating/postgres-roles.md), and others.
ROLES = ("owner", "ingest", "ranker", "discord_edge", "backup")
PASSWORDS = (*ROLES, "replication", "operator", "reader")
OPENSSL_S_MAX = 60


def main() -> int:
    """Read the arguments, and write the files."""
    if len(sys.argv) != 3:
        sys.stderr.write("usage: render.py SITE.env FOLDER\n")
        return 2
    site, folder = read_site(Path(sys.argv[1])), Path(sys.argv[2])
    values = site | read_secrets(folder / "secrets", site)
    for machine in MACHINES:
        render_machine(folder, machine, values)
    for agent in site["AGENTS"].split(","):
        render_agent(folder, agent, values)
    written = [*MACHINES, *(f"agents/{agent}" for agent in site["AGENTS"].split(","))]
    sys.stdout.write("".join(f"wrote {folder / name}\n" for name in written))
    return 0


def read_site(path: Path) -> dict[str, str]:
    """Return the settings of a file; it must have those of the sample. Raises SystemExit."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    site = {name: value for name, _, value in pairs}
    sample = HERE / "site.env"
    expected = {name for name in _names(sample) if not site.get(name)}
    if expected:
        raise SystemExit(f"{path} lacks {', '.join(sorted(expected))}: see {sample}")
    return site


def _names(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.partition("=")[0] for line in lines if line and not line.startswith("#")]


def read_secrets(folder: Path, site: Mapping[str, str]) -> dict[str, str]:
    """Return the passwords, the seal key and the bus's accounts; each is made once."""
    create_private_folder(folder)
    passwords = {name: _password(folder / name) for name in PASSWORDS}
    load_key(folder / "seal.key")
    _make_ca(folder)
    authority = _authority(folder)
    authority.create()
    for agent in site["AGENTS"].split(","):
        authority.ensure_user(f"agent-{agent}")
    hosts = [site[f"ADDRESS_{machine.upper()}"] for machine in MACHINES]
    return {
        **{f"{name.upper()}_PASSWORD": password for name, password in passwords.items()},
        "NATS_URL": ",".join(f"tls://{host}:4222" for host in hosts),
    }


def _authority(secrets_folder: Path) -> Authority:
    """Return the keys of the bus."""
    return Authority(secrets_folder / "keys")


def _password(path: Path) -> str:
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(24), encoding="utf-8")
    return path.read_text(encoding="utf-8")


def _openssl(*arguments: str | Path) -> None:
    command = ["openssl", *map(str, arguments)]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=OPENSSL_S_MAX, check=False
    )
    if result.returncode:
        raise SystemExit(f"{' '.join(command)}\n{result.stderr}")


def _make_ca(folder: Path) -> None:
    key, certificate = folder / "ca.key", folder / "ca.pem"
    if not key.exists():
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", key, "-out", certificate, "-days", str(CA_DAYS)),
            *("-subj", "/CN=Warpboard CA", "-addext", "keyUsage=critical,keyCertSign,cRLSign"),
        )


def _make_certificate(folder: Path, target: Path, names: str) -> None:
    """Write `key.pem` and `cert.pem` for names such as `IP:10.41.0.1`, and the CA's certificate."""
    request = target / "request.pem"
    _openssl(
        *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
        *("-keyout", target / "key.pem", "-out", request, "-subj", "/CN=warpboard"),
        *("-addext", f"subjectAltName={names}"),
    )
    _openssl(
        *("x509", "-req", "-in", request, "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key"),
        *("-days", str(CERTIFICATE_DAYS), "-copy_extensions", "copy"),
        *("-out", target / "cert.pem"),
    )
    request.unlink()
    shutil.copy(folder / "ca.pem", target / "ca.pem")


def render_machine(folder: Path, machine: str, site: Mapping[str, str]) -> None:
    """Write the files of `a`, `b` or `c`."""
    others = [other for other in MACHINES if other != machine]
    values = {
        **site,
        "HOST": machine,
        "ADDRESS": site[f"ADDRESS_{machine.upper()}"],
        "STANDBYS": ", ".join(others),
        "OTHER_ADDRESSES": ",".join(site[f"ADDRESS_{other.upper()}"] for other in others),
    }
    target = folder / machine
    kinds = ["all", *(["services"] if machine in SERVICES else [machine])]
    _render(target, kinds, values)
    # The check of routes compares DNS names only, even with an address.
    names = f"IP:{values['ADDRESS']},DNS:{values['ADDRESS']},DNS:{site['DOMAIN']}"
    etc = target / "etc" / "warpboard"
    _make_certificate(folder / "secrets", etc, names)
    authority = _authority(folder / "secrets")
    bus = authority.server_settings(ACCOUNTS)
    text = "".join(f"{name}: {json.dumps(value, indent=2)}\n" for name, value in bus.items())
    (etc / "bus.conf").write_text(text, encoding="utf-8")
    if machine in SERVICES:
        shutil.copy(folder / "secrets" / "seal.key", etc)
        for service in BUS_USERS:
            shutil.copy(authority.credentials_path(service), etc)


def render_agent(folder: Path, agent: str, site: Mapping[str, str]) -> None:
    """Write the files of the host of an agent."""
    target = folder / "agents" / agent
    _render(target, ["agent"], {**site, "AGENT": agent})
    etc = target / "etc" / "warpboard"
    shutil.copy(folder / "secrets" / "ca.pem", etc)
    shutil.copy(_authority(folder / "secrets").credentials_path(f"agent-{agent}"), etc)
    (etc / "agent.env").rename(etc / f"gpu-agent-{agent}.env")


def _render(target: Path, kinds: list[str], values: Mapping[str, str]) -> None:
    shutil.rmtree(target, ignore_errors=True)
    create_private_folder(target)
    for kind in kinds:
        for source in sorted(path for path in (FILES / kind).rglob("*") if path.is_file()):
            path = target / source.relative_to(FILES / kind)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o640)
            path.write_text(Template(source.read_text(encoding="utf-8")).substitute(values))
    shutil.copytree(
        HERE.parent / "systemd", target / "etc" / "systemd" / "system", dirs_exist_ok=True
    )
    for script in ("install.sh", "postgres.sh"):
        shutil.copy(HERE / script, target)


if __name__ == "__main__":
    sys.exit(main())
