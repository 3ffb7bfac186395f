"""All that the simulator consists of, but for the server: what its operations work on."""

import asyncio
from collections import defaultdict

from discord_sim import shapes
from discord_sim.cdn import Cdn
from discord_sim.clock import Clock, Ids
from discord_sim.faults import Faults
from discord_sim.gateway import Gateway
from discord_sim.guild import Guild
from discord_sim.interactions import Interactions
from discord_sim.judges import Judges
from discord_sim.ratelimits import RateLimits
from discord_sim.record import Record
from discord_sim.shapes import FILE_BYTES_MAX, Json

# How long Discord remembers a nonce; it says "the past few minutes".
NONCE_S = 180.0


class Parts:
    """One simulated Discord, in memory."""

    def __init__(self, token: str, judges: Judges, guild: str = "") -> None:
        """An empty server that the bot with this token is a member of."""
        self.token, self.judges = token, judges
        self.clock = Clock()
        self.ids = Ids(self.clock)
        self.record = Record()
        self.guild = Guild(self.clock, self.ids, guild)
        # Since 2016 a new application's bot has its id; those of before have two.
        self.application_id = self.ids.next()
        self.cdn = Cdn(self.clock, self.ids)
        self.interactions = Interactions(self.clock, self.ids)
        self.limits, self.faults = RateLimits(), Faults()
        self.gateway = Gateway(token, self.guild, self.record, judges)
        self.messages: dict[str, dict[str, Json]] = defaultdict(dict)
        self.nonces: dict[str, tuple[float, Json]] = {}
        self.nonce_s = NONCE_S
        self.commands: dict[str | None, list[Json]] = {}
        self.emojis: dict[str, Json] = {}
        self.renames: dict[str, list[float]] = defaultdict(list)
        # People who take no direct messages.
        self.closed_doors: set[str] = set()
        self.files_max_bytes = FILE_BYTES_MAX
        # How long people take to see what is there: discord.py knows a view only after the
        # answer to the request that sent it.
        self.reaction_s = 0.1
        self.deadlines: set[asyncio.Task[None]] = set()

    def add_emoji(self, name: str) -> Json:
        """One more emoji of the application's own."""
        emoji = shapes.emoji(self.ids.next(), name, self.guild.bot)
        self.emojis[emoji["id"]] = emoji
        return emoji
