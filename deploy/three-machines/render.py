"""Write the files of each machine: `python render.py SITE.env FOLDER`.

FOLDER gets `a`, `b` and `c`, each with an `etc` and an `install.sh`; `keys`, which the commands
`warpboard server keys` and `warpboard agent enroll` read; and `secrets`. No machine needs the last
two as a whole. What exists of them is kept, so after a change of SITE.env or an upgrade the same
command writes the files again, with new certificates.
"""

import secrets
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from string import Template

from shared.bus_keys.authority import Authority
from shared.bus_keys.certificates import CertificateFolder
from shared.private_files import create_private_folder
from shared.signing import load_key

HERE = Path(__file__).parent
FILES = HERE / "files"
MACHINES = ("a", "b", "c")
SERVICES = ("a", "b")
BUS_USERS = ("ingest", "ranker", "scheduler", "maintenance")
# Of the roles of Postgres (docs/operating/postgres-roles.md), and others.
ROLES = ("owner", "ingest", "ranker", "discord_edge", "backup")
PASSWORDS = (*ROLES, "replication", "operator", "reader")


def main() -> int:
    """Read the arguments, and write the files."""
    if len(sys.argv) != 3:
        sys.stderr.write("usage: render.py SITE.env FOLDER\n")
        return 2
    site, folder = read_site(Path(sys.argv[1])), Path(sys.argv[2])
    values = site | read_secrets(folder / "secrets")
    values["NATS_URL"] = ",".join(
        f"tls://{site[f'ADDRESS_{machine.upper()}']}:4222" for machine in MACHINES
    )
    authority = Authority(folder / "keys")
    authority.create()
    authority.save_address(values["NATS_URL"])
    for machine in MACHINES:
        render_machine(folder, machine, values, authority)
        sys.stdout.write(f"wrote {folder / machine}\n")
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


def read_secrets(folder: Path) -> dict[str, str]:
    """Return the passwords; they and the seal key are made once."""
    create_private_folder(folder)
    load_key(folder / "seal.key")
    return {f"{name.upper()}_PASSWORD": _password(folder / name) for name in PASSWORDS}


def _password(path: Path) -> str:
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(24), encoding="utf-8")
    return path.read_text(encoding="utf-8")


def render_machine(
    folder: Path, machine: str, site: Mapping[str, str], authority: Authority
) -> None:
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
    etc = target / "etc" / "warpboard"
    certificates = CertificateFolder(authority.ca.parent)
    certificate = certificates.issue(machine, [values["ADDRESS"], site["DOMAIN"]])
    shutil.copy(certificate, etc / "cert.pem")
    shutil.copy(certificate.with_suffix(".key"), etc / "key.pem")
    shutil.copy(certificates.ca, etc / "ca.pem")
    shutil.copy(authority.server_config, etc)
    if machine in SERVICES:
        shutil.copy(folder / "secrets" / "seal.key", etc)
        for service in BUS_USERS:
            shutil.copy(authority.credentials_path(service), etc)


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
