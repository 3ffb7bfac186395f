"""The simulator: its server, helpers to set up channels and roles, and simulated users."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from aiohttp import web

from discord_sim import shapes
from discord_sim.api_server import REQUEST_BYTES_MAX, ApiServer
from discord_sim.documents import Validators
from discord_sim.gateway import GUILDS
from discord_sim.guild import permission_bits
from discord_sim.operations.channels import change_channel, remove_channel
from discord_sim.operations.messages import fill_message, new_message, publish_message
from discord_sim.shapes import Json
from discord_sim.state import SimulatorState
from discord_sim.users import SimulatedUser

LINE_BYTES_MAX = 1 << 16
TOKEN = "simulated.bot.token"  # noqa: S105 - nobody's
API_VERSION = "v10"


@dataclass(frozen=True)
class ServerOptions:
    """The address to listen on and the id of the server; empty for a new id.

    With `public_names`, URLs in answers contain Discord's own host names.
    """

    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    public_names: bool = False
    guild: str = ""


class Simulator(SimulatorState):
    """`async with Simulator(validators) as sim:`; then start a bot with `sim.url`, `sim.token`."""

    def __init__(
        self,
        validators: Validators | None = None,
        options: ServerOptions | None = None,
        token: str = TOKEN,
    ) -> None:
        self._options = options or ServerOptions()
        super().__init__(token, validators or Validators(), self._options.guild)
        self.url, self.port = "", 0
        self._runner: web.AppRunner | None = None
        # Functions that add routes besides those of Discord.
        self.extras: list[Callable[[web.Application], None]] = []

    @property
    def api_url(self) -> str:
        """The base URL of the API, as in discord.py's `Route.BASE`."""
        return f"{self.url}/api/{API_VERSION}"

    async def __aenter__(self) -> Self:
        app = self.application()
        self._runner = web.AppRunner(app, access_log=None, max_line_size=LINE_BYTES_MAX)
        await self._runner.setup()
        host, tls = self._options.host, self._options.tls
        await web.TCPSite(self._runner, host, self._options.port, ssl_context=tls).start()
        self.port = self._runner.addresses[0][1]
        secure = "s" if tls else ""
        self.url = f"http{secure}://{host}:{self.port}"
        is_public = self._options.public_names
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
        for task in self.deadlines:
            task.cancel()
        await self.gateway.drop()
        if self._runner:
            await self._runner.cleanup()

    def application(self) -> web.Application:
        """Build the application with the API, the gateway and attachments."""
        app = web.Application(client_max_size=REQUEST_BYTES_MAX + (1 << 20))
        app.router.add_get("/", self.gateway.serve)
        app.router.add_route("*", f"/api/{API_VERSION}/{{tail:.*}}", ApiServer(self).serve)
        for folder in ("attachments", "ephemeral-attachments"):
            app.router.add_get(f"/{folder}/{{channel}}/{{id}}/{{name}}", self.cdn.serve)
        for add_routes in self.extras:
            add_routes(app)
        return app

    def person(self, name: str, *roles: str) -> SimulatedUser:
        """Add a user with roles, by id."""
        return SimulatedUser(self, self.guild.add_user(name, list(roles)))

    def owner(self) -> SimulatedUser:
        """Return the owner of the server, who may do everything."""
        return SimulatedUser(self, self.guild.owner_id)

    async def add_channel(
        self,
        name: str,
        kind: int = shapes.TEXT,
        deny: Mapping[str, tuple[str, ...]] | None = None,
        identity: str = "",
    ) -> str:
        """Add a channel, and return its id; `deny` removes permissions of roles or users."""
        overwrites = [
            {
                "id": identity,
                "type": 0 if identity in self.guild.roles else 1,
                "deny": str(permission_bits(*names)),
                "allow": "0",
            }
            for identity, names in (deny or {}).items()
        ]
        channel = self.guild.add_channel(name, kind, identity)
        change_channel(self, channel, {"permission_overwrites": overwrites})
        await self.gateway.emit("CHANNEL_CREATE", channel, GUILDS)
        return str(channel["id"])

    async def add_role(self, name: str, *permissions: str) -> str:
        """Add a role, and return its id."""
        identity = self.guild.add_role(name, permission_bits(*permissions))
        event = {"guild_id": self.guild.id, "role": self.guild.roles[identity]}
        await self.gateway.emit("GUILD_ROLE_CREATE", event, GUILDS)
        return identity

    async def delete_channel(self, channel_id: str) -> None:
        """Delete a channel or thread, as a moderator does."""
        await remove_channel(self, self.guild.channel(channel_id))

    async def write(self, author: str, channel_id: str, body: Json) -> None:
        """Send a message as another user or bot."""
        message = new_message(self, channel_id, self.guild.users[author])
        fill_message(self, message, body, {})
        await publish_message(self, message)

    async def archive(self, thread_id: str, *, is_locked: bool = False) -> None:
        """Archive a thread, and possibly lock it, as a moderator does."""
        thread = self.guild.channel(thread_id)
        thread["thread_metadata"] |= {"archived": True, "locked": is_locked}
        await self.gateway.emit("THREAD_UPDATE", thread, GUILDS)

    async def fill_with_threads(self, channel_id: str, count: int) -> None:
        """Add threads of others; Discord allows 1000 active ones."""
        parent = self.guild.channel(channel_id)
        start = shapes.ThreadStart(shapes.PUBLIC_THREAD, self.guild.owner_id, self.clock.iso())
        for n in range(count):
            thread = shapes.thread(self.ids.next(), parent, {"name": f"thread {n}"}, start)
            self.guild.channels[thread["id"]] = thread

    async def ready(self, within_s: float = 60.0, identified: int = 0) -> None:
        """Wait for a bot with commands whose session is newer than `identified` others."""
        gateway = self.gateway
        await self.record.until(
            lambda: gateway.is_connected and gateway.identified > identified and self.commands,
            "a bot that is ready",
            within_s,
        )

    async def outage(self) -> None:
        """Make all of Discord unavailable until `recover`."""
        self.faults.is_down = self.gateway.is_down = True
        await self.gateway.drop()

    def recover(self) -> None:
        """End an outage."""
        self.faults.is_down = self.gateway.is_down = False
