"""The roles of Postgres and what each may do.

There is one role for each service, one for backups, and an owner. The schemas whose rows follow
from no event (`OWNED`) belong to the owner: only `python -m shared.database` creates and migrates
them, and services may change rows. All other schemas are derived from the log and belong to
ranker, which creates them, and builds new ones in a replay.
"""

from collections.abc import Mapping

from shared.servers.postgresql import ROLES

OWNER, INGEST, RANKER, DISCORD_EDGE, BACKUP = (f"warpboard_{name}" for name in ROLES)
SERVICES = (INGEST, RANKER, DISCORD_EDGE)
# Schemas of the owner, each with the package that has its migrations.
OWNED = {"accounts": "shared", "discord_edge": "discord_edge"}

ALL_ROWS = "select, insert, update, delete"
# By role and table, as in a GRANT. Columns are named where a role needs only some of them. The
# owner may do everything in these schemas; the role of backups reads every table.
GRANTS: Mapping[str, Mapping[str, str]] = {
    INGEST: {
        "accounts.cli_login": "select, insert, update (account), delete",
        "accounts.device_login": (
            "select, insert, update (account, is_denied, polled_at, token), delete"
        ),
        "accounts.former_name": "select, insert, delete",
        "accounts.idempotency": ALL_ROWS,
        "accounts.identity": "select, insert, update (subject), delete",
        "accounts.invite": "select, insert",
        "accounts.login_state": "select, insert, delete",
        "accounts.migration": "select",
        "accounts.participant": "select, insert, update (name)",
        "accounts.password": "select, insert, update (name, hash, changed_at)",
        "accounts.register": "select, update (is_lost, written_at)",
        "accounts.submission_note": "select, insert, update (note, tag, said_at)",
        "accounts.token": "select, insert, update (last_used_at)",
        "accounts.webhook": "select, insert, update (seq), delete",
        "accounts.webhook_delivery": "select, insert",
    },
    RANKER: {
        "accounts.former_name": "select (name, account)",
        "accounts.identity": "select (subject)",
        "accounts.migration": "select",
        "accounts.outbox": "select, insert, update (tries, done_at)",
        "accounts.participant": "select (account, name)",
        "accounts.register": "select, update (written_at)",
        "accounts.submission_note": "select (submission, note, tag)",
        "accounts.webhook": "select, update (off_at, notice)",
        "accounts.webhook_delivery": ALL_ROWS,
        "accounts.webhook_place": "select, insert, update (seq, looked_at)",
    },
    DISCORD_EDGE: {
        "discord_edge.begun": ALL_ROWS,
        "discord_edge.board": ALL_ROWS,
        "discord_edge.contest": ALL_ROWS,
        "discord_edge.made": ALL_ROWS,
        "discord_edge.migration": "select",
        "discord_edge.outbox": ALL_ROWS,
        "discord_edge.podium": ALL_ROWS,
        "discord_edge.post": ALL_ROWS,
        "discord_edge.synced": ALL_ROWS,
        "discord_edge.wanted": ALL_ROWS,
    },
}
