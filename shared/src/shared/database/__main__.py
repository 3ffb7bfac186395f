"""`python -m shared.database`: prepares a database, or gives a role a new password."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from shared.database.postgres import prepare, rotate
from shared.database.roles import BACKUP, OWNER, SERVICES
from shared.database.settings import load
from shared.errors import Failed, Refused


def main(arguments: Sequence[str]) -> int:
    """Run one command, and return the exit code: 0, 2 if it is refused, 3 if Postgres is away."""
    parser = argparse.ArgumentParser(prog="python -m shared.database")
    commands = parser.add_subparsers(dest="command")
    rotation = commands.add_parser("rotate", help="give a role a new password")
    rotation.add_argument("role", choices=(OWNER, *SERVICES, BACKUP))
    rotation.add_argument("passfile", type=Path, help="the password file in its service's DSN")
    options = parser.parse_args(arguments)
    try:
        settings = load()
        if options.command == "rotate":
            rotate(settings.postgres_dsn, options.role, options.passfile)
            sys.stdout.write(f"{options.role} has a new password, in {options.passfile}\n")
            return 0
        prepared = prepare(settings.postgres_dsn, settings.passwords())
    except Refused as refused:
        sys.stderr.write(f"{refused.reason}\n")
        return 2
    except Failed as failed:
        sys.stderr.write(f"{failed}\n")
        return 3
    new = ", ".join(prepared.created_roles) or "none"
    sys.stdout.write(f"new roles: {new}\n")
    for schema, count in prepared.migrations.items():
        sys.stdout.write(f"{schema}: {count} new migrations\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
