"""The names that a release must not contain: those of people and of their identities elsewhere."""

from shared.postgres import connect, load_statements, translate_outages

UNREACHABLE = ("the names cannot be read", "the names cannot be read for a moment; try again")


async def read_names(dsn: str) -> list[str]:
    """Return all names that participants have, had, or have on other systems. Raises Failed."""
    statement = load_statements("shared", "names.sql")["names"].encode()
    with translate_outages(*UNREACHABLE):
        async with await connect(dsn, "accounts") as connection:
            rows = await (await connection.execute(statement)).fetchall()
    return [str(name) for (name,) in rows]
