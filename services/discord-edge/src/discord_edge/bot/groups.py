"""Which groups of commands there are: none whose role nobody on the server can have."""

from collections.abc import Collection

from discord import app_commands

from discord_edge.bot import authors
from discord_edge.bot.account import Account
from discord_edge.bot.admin import Admin
from discord_edge.bot.agents import Agents
from discord_edge.bot.leaderboards import Leaderboards
from discord_edge.bot.moderation import Moderation


def groups(roles: Collection[str], *, has_local: bool = False) -> list[app_commands.Group]:
    """Those of participants, and those for which the server has a role."""
    boards = Leaderboards()
    found: list[app_commands.Group] = [boards, Account()]
    if {"creator", "admin"} & set(roles):
        for one in authors.COMMANDS:
            boards.add_command(one)
    if {"moderator", "admin"} & set(roles):
        found.append(Moderation())
    return [*found, Admin(has_local=has_local), Agents()] if "admin" in roles else found
