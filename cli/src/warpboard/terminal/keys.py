"""The operator's keys of the bus: make, add, rotate, revoke, list, and certificates of servers."""

import asyncio
import base64
import json
import secrets
import subprocess
import sys
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from click import IntRange

from shared.bus_keys.authority import Authority, UserKey
from shared.bus_keys.login import BusLogin
from shared.errors import Failed, Refused
from shared.version import VERSION
from warpboard.context import AppContext, RecordedEvent, send_action
from warpboard.domain.output import Table
from warpboard.terminal import options
from warpboard.terminal.options import local_command

DEPLOY_S_MAX = 60.0
SIGN_SEED_BYTES = 32
KEYS = click.option(
    "--keys",
    type=options.NEW_FOLDER,
    metavar="FOLDER",
    help="The folder of the keys; default: keys in the platform's data.",
)
USER = click.argument("user")
ACCESS = options.DATA_FOLDER


def open_authority(context: AppContext, keys: Path | None) -> Authority:
    """Return the keys that a command names. Raises Refused if there are none."""
    authority = Authority(keys or context.folder / "keys")
    if not authority.exists:
        reason = f"{authority.folder} has no keys: run warpboard server keys make, or name --keys"
        raise Refused("no_keys", reason, "keys")
    return authority


async def deploy(authority: Authority, *users: str) -> bool:
    """Give the servers the accounts of these users, by default all; False without an address.

    Raises Failed with the reason of the servers.
    """
    if not authority.address:
        return False
    jwts = [authority.account_jwt(user) for user in users] or [*authority.account_jwts().values()]
    ca = str(authority.ca) if authority.ca.exists() else ""
    login = BusLogin(authority.address, str(authority.credentials_path("sys")), ca)
    body = json.dumps({"login": list(login), "jwts": jwts}).encode() + b"\n"
    # This package speaks HTTP alone; what speaks to NATS is a process of its own.
    command = [sys.executable, "-P", "-m", "shared.nats.account_deployment"]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        async with asyncio.timeout(DEPLOY_S_MAX):
            _, errors = await process.communicate(body)
    except TimeoutError as late:
        process.kill()
        raise Failed(f"the servers did not answer in {DEPLOY_S_MAX:g} s") from late
    if process.returncode:
        raise Failed(errors.decode(errors="replace").strip().rpartition("\n")[2])
    return True


def _describe_deployment(*, is_deployed: bool) -> str:
    if is_deployed:
        return "the servers know it"
    return "no server was told: make --address names them, and bus.conf is for new ones"


@local_command(
    "server keys make --keys ./keys --address tls://bus1.example.org:4222",
    parameters=(
        KEYS,
        click.option(
            "--address",
            metavar="URLS",
            help="How processes reach the bus; of a cluster all addresses, separated by commas.",
        ),
    ),
    access=ACCESS,
)
async def make(context: AppContext, keys: Path | None, address: str | None) -> int:
    """Make an operator's keys, a user per service, and a CA.

    What exists stays. `bus.conf` is for every nats-server, `credentials/USER.creds` for one process
    each, `certificates/ca.pem` for all. Keep the rest here, and back it up: without the seeds, the
    log cannot be opened after a change of keys.
    """
    from shared.bus_keys.certificates import CertificateFolder

    authority = Authority(keys or context.folder / "keys")
    authority.create()
    CertificateFolder(authority.ca.parent).create_ca()
    if address:
        authority.save_address(address)
    lines = [
        f"for each nats-server: {authority.server_config}",
        f"for each process: {authority.credentials_folder}/USER.creds",
        f"for all of them: {authority.ca}",
    ]
    document = {"folder": str(authority.folder), "users": [key.user for key in authority.users()]}
    return context.show(document, lines)


@local_command("server keys list", parameters=(KEYS,), access=ACCESS)
async def list_keys(context: AppContext, keys: Path | None) -> int:
    """List the users of the bus and the certificates."""
    from shared.bus_keys.certificates import CertificateFolder

    authority = open_authority(context, keys)
    users, certificates = authority.users(), CertificateFolder(authority.ca.parent).list()
    document = {
        "users": [
            {
                "user": key.user,
                "account": key.account,
                "issued_at": _instant(key.issued_at_s),
                "expires_at": _instant(key.expires_at_s),
                "is_revoked": key.is_revoked,
            }
            for key in users
        ],
        "certificates": [
            {
                "name": certificate.name,
                "hosts": certificate.hosts,
                "expires_at": certificate.expires_at.isoformat(),
            }
            for certificate in certificates
        ],
    }
    user_table = Table(
        "users", ["user", "account", "issued", "state"], [_user_row(key) for key in users]
    )
    rows = [
        [certificate.name, ", ".join(certificate.hosts), f"{certificate.expires_at:%Y-%m-%d}"]
        for certificate in certificates
    ]
    certificate_table = Table("certificates", ["certificate", "hosts", "expires"], rows)
    return context.show(document, [user_table, certificate_table])


def _user_row(key: UserKey) -> list[str]:
    state = "valid" if key.expires_at_s is None else f"expires {_instant(key.expires_at_s)}"
    issued = datetime.fromtimestamp(key.issued_at_s, UTC)
    return [key.user, key.account, f"{issued:%Y-%m-%d}", "revoked" if key.is_revoked else state]


def _instant(seconds: int | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


@local_command("server keys add launcher-modal", parameters=(USER, KEYS), access=ACCESS)
async def add(context: AppContext, user: str, keys: Path | None) -> int:
    """Make a USER of the bus, and tell the servers.

    Such as launcher-NAME. `agent enroll` does so for agents.
    """
    authority = open_authority(context, keys)
    path = authority.ensure_user(user)
    is_deployed = await deploy(authority, user)
    lines = [f"{user}: {path}; {_describe_deployment(is_deployed=is_deployed)}"]
    return context.show({"user": user, "credentials": str(path)}, lines)


@local_command(
    "server keys rotate ingest",
    parameters=(
        USER,
        click.option(
            "--days",
            type=IntRange(1, 3650),
            help="After how many days the new credentials expire; default: never.",
        ),
        KEYS,
    ),
    access=ACCESS,
)
async def rotate(context: AppContext, user: str, days: int | None, keys: Path | None) -> int:
    """Give USER new credentials; the old ones stay valid.

    They are in the same file. Copy the file to where the process reads it, then run
    `server keys retire USER`: the process reconnects with the new ones within a second, and loses
    nothing.
    """
    authority = open_authority(context, keys)
    authority.credentials(user)
    authority.issue(user, (days or 0) * 86_400)
    path = authority.credentials_path(user)
    lines = [f"new: {path}", f"once it is in place: warpboard server keys retire {user}"]
    return context.show({"user": user, "credentials": str(path)}, lines)


@local_command("server keys retire ingest", parameters=(USER, KEYS), access=ACCESS)
async def retire(context: AppContext, user: str, keys: Path | None) -> int:
    """Revoke all credentials of USER but the newest."""
    authority = open_authority(context, keys)
    authority.revoke(user, keeps_newest=True)
    is_deployed = await deploy(authority, user)
    lines = [
        f"{user} has its newest credentials alone; {_describe_deployment(is_deployed=is_deployed)}"
    ]
    return context.show({"user": user, "is_deployed": is_deployed}, lines)


@local_command("server keys revoke launcher-modal", parameters=(USER, KEYS), access=ACCESS)
async def revoke(context: AppContext, user: str, keys: Path | None) -> int:
    """Revoke all credentials of USER: it is disconnected.

    `server keys rotate` gives it new ones.
    """
    authority = open_authority(context, keys)
    authority.revoke(user, keeps_newest=False)
    is_deployed = await deploy(authority, user)
    lines = [f"{user} is revoked; {_describe_deployment(is_deployed=is_deployed)}"]
    return context.show({"user": user, "is_deployed": is_deployed}, lines)


@local_command(
    "server keys certificate bus1 bus1.example.org 10.0.0.11",
    parameters=(
        click.argument("name"),
        click.argument("hosts", nargs=-1, required=True),
        click.option(
            "--days", type=IntRange(1, 825), default=398, show_default=True, help="Validity."
        ),
        KEYS,
    ),
    access=ACCESS,
)
async def certificate(
    context: AppContext, name: str, hosts: tuple[str, ...], days: int, keys: Path | None
) -> int:
    """Make or renew a server's certificate.

    Clients reach the server as HOSTS. It is `certificates/NAME.pem` with `NAME.key`. A
    nats-server reads a renewed one after `nats-server --signal reload`, and keeps its connections.
    """
    from shared.bus_keys.certificates import CertificateFolder

    authority = open_authority(context, keys)
    path = CertificateFolder(authority.ca.parent).issue(name, hosts, days)
    lines = [f"certificate: {path}", f"key: {path.with_suffix('.key')}", f"CA: {authority.ca}"]
    return context.show({"certificate": str(path), "ca": str(authority.ca)}, lines)


@local_command("server keys deploy", parameters=(KEYS,), access=ACCESS)
async def deploy_keys(context: AppContext, keys: Path | None) -> int:
    """Give the servers all accounts."""
    authority = open_authority(context, keys)
    if not await deploy(authority):
        reason = "the address of the bus is unknown: name it by server keys make --address"
        raise Refused("no_address", reason, "address")
    return context.show({"is_deployed": True}, ["the servers know all accounts"])


@local_command(
    'agent enroll h200-3 --owner lab --reason "a new host"',
    parameters=(
        click.argument("agent", metavar="AGENT"),
        click.option("--owner", required=True, metavar="NAME", help="The machine's owner."),
        click.option(
            *("--key", "sign_key"),
            metavar="KEY",
            help="Its public key, from `python -m gpu_agent key`; default: one is made.",
        ),
        click.option(
            "--form",
            type=click.Choice(["container", "systemd"]),
            default="container",
            show_default=True,
            help="What the line starts on the host, as root.",
        ),
        options.REASON,
        KEYS,
    ),
    access=options.OPERATOR,
)
async def enroll(
    context: AppContext, agent: str, *, sign_key: str | None, form: str, **values: Any
) -> int:
    """Enrol an agent, and print the line that starts it on its host.

    The line holds the agent's token: its credentials for the bus, the address, the CA, and the key
    that signs its verdicts. The host needs no open port. With --key, only that key is accepted.
    Repeating it makes a new token, and the older ones end.
    """
    decision = {"owner": values["owner"], "reason": values["reason"]}
    if sign_key:
        body = {"sign_key": sign_key, **decision}
        async with context.operator_api() as api:
            return await send_action(
                context, api, "POST", "admin", "agents", agent, "enroll", body=body
            )
    from nacl.signing import SigningKey

    authority = open_authority(context, values["keys"])
    if not authority.address:
        missing = "the address of the bus is unknown: name it by server keys make --address"
        raise Refused("no_address", missing, "address")
    user = f"agent-{agent}"
    seed = secrets.token_bytes(SIGN_SEED_BYTES)
    public = base64.b64encode(bytes(SigningKey(seed).verify_key)).decode()
    # First, so that the bus lets nobody in whom ingest refuses, such as a revoked agent.
    body = {"sign_key": public, **decision}
    async with context.operator_api() as api:
        await api.act(RecordedEvent, "POST", "admin", "agents", agent, "enroll", body=body)
    authority.replace(user)
    await deploy(authority, user)
    ca = str(authority.ca) if authority.address.startswith("tls") else ""
    login = BusLogin(authority.address, str(authority.credentials_path(user)), ca).with_texts()
    token = make_token(agent, login, seed)
    line = start_line(agent, token, form)
    return context.show({"agent": agent, "token": token, "line": line}, [line])


def make_token(agent: str, login: BusLogin, seed: bytes) -> str:
    """Return what an agent needs to know, as its setting TOKEN."""
    settings = {
        "ID": agent,
        "NATS_URL": login.url,
        "NATS_CREDENTIALS": login.credentials,
        "NATS_CA": login.ca,
        "SIGN_SEED": base64.b64encode(seed).decode(),
    }
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(settings).encode())).decode()


def start_line(agent: str, token: str, form: str) -> str:
    """Return the command that starts an agent on its host.

    The token is in no argument of a process, which every user of the host could read.
    """
    if form == "systemd":
        path = f"/etc/warpboard/gpu-agent-{agent}.env"
        return (
            # The file may be there already, with other settings and for all to read.
            f"(umask 077; mkdir -p /etc/warpboard; touch {path}; chmod 600 {path}; "
            f"echo WARPBOARD_GPU_AGENT_TOKEN={token} >> {path}) && "
            f"systemctl enable --now warpboard-gpu-agent@{agent}"
        )
    return (
        f"WARPBOARD_GPU_AGENT_TOKEN={token} "
        f"docker run -d --name warpboard-{agent} --restart unless-stopped --privileged --gpus all "
        f"--ulimit rtprio=1 -v warpboard-{agent}:/var/lib/warpboard "
        "-e WARPBOARD_GPU_AGENT_TOKEN -e WARPBOARD_GPU_AGENT_DATA=/var/lib/warpboard "
        "-e WARPBOARD_GPU_AGENT_OPS_LISTEN=127.0.0.1:9104 -e WARPBOARD_GPU_AGENT_DEVICE=cuda "
        f"warpboard-agent:{VERSION} python -m gpu_agent"
    )


@local_command(
    'agent revoke h200-3 --reason "its key was copied"',
    parameters=(click.argument("agent", metavar="AGENT"), options.REASON, KEYS),
    access=options.OPERATOR,
)
async def revoke_agent(context: AppContext, agent: str, reason: str, keys: Path | None) -> int:
    """Revoke an agent permanently: it can neither run jobs nor sign.

    The bus disconnects it at once, if its credentials come from the keys here.
    """
    authority, user = Authority(keys or context.folder / "keys"), f"agent-{agent}"
    is_deployed = False
    try:
        if authority.exists and authority.credentials_path(user).exists():
            authority.revoke(user, keeps_newest=False)
            is_deployed = await deploy(authority, user)
    finally:
        # Also if the bus does not answer: then its verdicts count no more, at least.
        async with context.operator_api() as api:
            body = {"reason": reason}
            code = await send_action(
                context, api, "POST", "admin", "agents", agent, "revoke", body=body
            )
    if not is_deployed:
        advice = f"where its keys are, run warpboard server keys revoke {user}"
        context.screen.note(f"warpboard: the bus may still let {agent} in: {advice}")
    return code
