"""What ingest is told at start; the only reader of its environment."""

import os
from dataclasses import dataclass, field

from shared.errors import Refused
from shared.settings import Listen, read

LOOPBACK = ("127.0.0.1", "localhost", "::1")
TOKEN_LENGTH_MIN = 16


@dataclass(frozen=True)
class Settings:
    """Where everything is; without an operator's token nobody is one.

    `replicas` is how many NATS servers keep everything: 1, or 3 on a cluster.
    """

    nats_url: str
    postgres_dsn: str
    listen: Listen
    ops_listen: Listen
    ranker_url: str
    operator_token: str = field(default="", repr=False)
    replicas: int = 1


def load() -> Settings:
    """The settings, or Refused with all that is wrong with them."""
    settings = read(Settings, "WARPBOARD_INGEST", os.environ)
    if settings.listen.host not in LOOPBACK:
        # Until there are tokens, a participant is who the request says it is.
        raise Refused(
            "bad_settings",
            f"WARPBOARD_INGEST_LISTEN is {settings.listen.host}: without tokens ingest believes "
            "any name it is told, so it listens on 127.0.0.1 alone",
            "listen",
        )
    token = settings.operator_token
    is_sendable = token.isascii() and token.isprintable() and " " not in token
    if token and not (is_sendable and len(token) >= TOKEN_LENGTH_MIN):
        raise Refused(
            "bad_settings",
            f"WARPBOARD_INGEST_OPERATOR_TOKEN is no token: expected at least {TOKEN_LENGTH_MIN} "
            "visible ASCII characters, or none at all",
            "operator_token",
        )
    return settings
