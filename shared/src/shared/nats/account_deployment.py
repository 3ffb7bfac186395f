"""Gives running nats-servers the accounts of an operator: no server is restarted or reloaded.

`python -m shared.nats.account_deployment` gets a `Deployment` on the first line of its input.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from functools import partial

import msgspec

from shared.bus_keys.claims import read_claims
from shared.bus_keys.login import BusLogin
from shared.errors import Failed
from shared.nats.connection import connect, request, retry_request

CONNECT_S_MAX = 10.0
UPDATE = "$SYS.REQ.CLAIMS.UPDATE"


class Deployment(msgspec.Struct):
    """The login of the user `sys`, and the accounts to give to the servers."""

    login: BusLogin
    jwts: list[str]


async def deploy_accounts(login: BusLogin, jwts: Sequence[str]) -> None:
    """Give the servers accounts, which take effect at once; safe to repeat.

    `login` is that of the user `sys`. A member of a cluster passes them on to the others. Who has a
    revoked key is disconnected. Raises Failed if a server does not answer or refuses.
    """
    nc = await connect(login, "warpboard-keys", within_s=CONNECT_S_MAX)
    try:
        for jwt in jwts:
            answer = await retry_request(nc, partial(request, nc, UPDATE, jwt.encode()))
            response = json.loads(answer.data)
            error = response.get("error")
            if error is not None:
                name = read_claims(jwt)["name"]
                reason = error.get("description") or error
                raise Failed(f"the NATS servers refuse the account {name}: {reason}")
    finally:
        await nc.close()


def main() -> int:
    """Deploy what the first line of the input names; return the exit code."""
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    deployment = msgspec.json.decode(sys.stdin.buffer.readline(), type=Deployment)
    try:
        asyncio.run(deploy_accounts(deployment.login, deployment.jwts))
    except Failed as failed:
        sys.stderr.write(f"{failed}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
