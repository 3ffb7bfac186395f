"""The whole: a server on one port, a world to set up, and people to act in it."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from aiohttp import web

from discord_sim import bodies, effects, shapes
from discord_sim.front import Front
from discord_sim.gateway.intents import GUILDS
from discord_sim.judges import Judges
from discord_sim.operations import changes
from discord_sim.parts import Parts
from discord_sim.people.person import Person
from discord_sim.permissions import bits
from discord_sim.shapes import Json

LINE_BYTES_MAX = 1 << 16
TOKEN = "simulated.bot.token"  # noqa: S105 - nobody's
API_VERSION = "v10"


@dataclass(frozen=True)
class Place:
    """Where to listen, and as which server, by id; none is a new one.

    With `public_names` it answers with Discord's own host names.
    """

    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    public_names: bool = False
    guild: str = ""


class Simulator(Parts):
    """`async with Simulator(judges) as sim:`, then start a bot with `sim.url` and `sim.token`."""

    def __init__(
        self, judges: Judges | None = None, place: Place | None = None, token: str = TOKEN
    ) -> None:
        """A Discord that does not listen yet."""
        self._place = place or Place()
        super().__init__(token, judges or Judges(), self._place.guild)
        self.url, self.port = "", 0
        self._runner: web.AppRunner | None = None
        # What is served beside Discord itself.
        self.extras: list[Callable[[web.Application], None]] = []

    @property
    def api_url(self) -> str:
        """What stands before every path: discord.py's `Route.BASE`."""
        return f"{self.url}/api/{API_VERSION}"

    async def __aenter__(self) -> Self:
        """Listen."""
        app = self.application()
        self._runner = web.AppRunner(app, access_log=None, max_line_size=LINE_BYTES_MAX)
        await self._runner.setup()
        host, tls = self._place.host, self._place.tls
        await web.TCPSite(self._runner, host, self._place.port, ssl_context=tls).start()
        self.port = self._runner.addresses[0][1]
        secure = "s" if tls else ""
        self.url = f"http{secure}://{host}:{self.port}"
        is_public = self._place.public_names
        gateway = f"ws{secure}://{host}:{self.port}"
        self.gateway.url = "wss://gateway.discord.gg" if is_public else gateway
        self.cdn.base = "https://cdn.discordapp.com" if is_public else self.url
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Hang up and stop listening."""
        for task in self.deadlines:
            task.cancel()
        await self.gateway.drop()
        if self._runner:
            await self._runner.cleanup()

    def application(self) -> web.Application:
        """The routes: the API, the gateway, attachments."""
        app = web.Application(client_max_size=bodies.REQUEST_BYTES_MAX + (1 << 20))
        app.router.add_get("/", self.gateway.serve)
        app.router.add_route("*", f"/api/{API_VERSION}/{{tail:.*}}", Front(self).serve)
        for where in ("attachments", "ephemeral-attachments"):
            app.router.add_get(f"/{where}/{{channel}}/{{id}}/{{name}}", self.cdn.serve)
        for add in self.extras:
            add(app)
        return app

    def person(self, name: str, *roles: str) -> Person:
        """Somebody new in the server, with roles by their ids."""
        return Person(self, self.guild.add_user(name, list(roles)))

    def owner(self) -> Person:
        """Who made the server, and may do everything."""
        return Person(self, self.guild.owner_id)

    async def add_channel(
        self, name: str, kind: int = shapes.TEXT, deny: Mapping[str, tuple[str, ...]] | None = None
    ) -> str:
        """A new channel; `deny` takes permissions from roles or people. Its id."""
        rules = [
            {
                "id": one,
                "type": 0 if one in self.guild.roles else 1,
                "deny": str(bits(*names)),
                "allow": "0",
            }
            for one, names in (deny or {}).items()
        ]
        channel = self.guild.add_channel(name, kind)
        changes.channel(self, channel, {"permission_overwrites": rules})
        await self.gateway.emit("CHANNEL_CREATE", channel, GUILDS)
        return str(channel["id"])

    async def add_role(self, name: str, *permissions: str) -> str:
        """A new role. Its id."""
        identity = self.guild.add_role(name, bits(*permissions))
        told = {"guild_id": self.guild.id, "role": self.guild.roles[identity]}
        await self.gateway.emit("GUILD_ROLE_CREATE", told, GUILDS)
        return identity

    async def delete_channel(self, channel_id: str) -> None:
        """A moderator deletes a channel or thread."""
        await changes.delete(self, self.guild.channel(channel_id))

    async def write(self, author: str, channel_id: str, body: Json) -> None:
        """Somebody else, a bot perhaps, says something in a channel."""
        message = effects.new(self, channel_id, self.guild.users[author])
        effects.fill(self, message, body, {})
        await effects.post(self, message)

    async def archive(self, thread_id: str, *, is_locked: bool = False) -> None:
        """A moderator archives a thread, and locks it perhaps."""
        thread = self.guild.channel(thread_id)
        thread["thread_metadata"] |= {"archived": True, "locked": is_locked}
        await self.gateway.emit("THREAD_UPDATE", thread, GUILDS)

    async def fill_with_threads(self, channel_id: str, count: int) -> None:
        """Threads of others, of which there may be 1000."""
        parent = self.guild.channel(channel_id)
        begun = shapes.Begun(shapes.PUBLIC_THREAD, self.guild.owner_id, self.clock.iso())
        for n in range(count):
            thread = shapes.thread(self.ids.next(), parent, {"name": f"thread {n}"}, begun)
            self.guild.channels[thread["id"]] = thread

    async def ready(self, within_s: float = 60.0, identified: int = 0) -> None:
        """Wait for a bot that has commands and came in after so many others had."""
        gateway = self.gateway
        await self.record.until(
            lambda: gateway.is_connected and gateway.identified > identified and self.commands,
            "a bot that is ready",
            within_s,
        )

    async def outage(self) -> None:
        """All of Discord is gone, until `recover`."""
        self.faults.is_down = self.gateway.is_down = True
        await self.gateway.drop()

    def recover(self) -> None:
        """Discord is back."""
        self.faults.is_down = self.gateway.is_down = False
