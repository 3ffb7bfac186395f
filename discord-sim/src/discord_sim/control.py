"""People by HTTP: what a page, or a test in another process, asks the simulator for."""

import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from discord_sim import shapes
from discord_sim.cdn import Blob
from discord_sim.errors import ApiError, NotOffered
from discord_sim.people.doing import Doing
from discord_sim.people.person import Person
from discord_sim.shapes import Json
from discord_sim.simulator import Simulator

CHANGE_S_MAX = 20.0
DOING_S_MAX = 5.0
PAGE = Path(__file__).parent / "page"
Act = Callable[[Person, Json], Awaitable[Json]]


class Control:
    """The routes under /sim; loopback is their only guard, as it is the simulator's."""

    def __init__(self, sim: Simulator) -> None:
        """The control of a simulator."""
        self._sim = sim
        self._doings: dict[str, Doing] = {}
        self._acts: dict[str, Act] = {
            "slash": self._slash,
            "autocomplete": self._autocomplete,
            "click": self._click,
            "select": self._select,
            "fill_in": self._fill_in,
        }

    def add_to(self, app: web.Application) -> None:
        """Let an application have the routes."""
        app.middlewares.append(_from_here)
        app.router.add_get("/healthz", self.health)
        app.router.add_get("/sim/", self.page)
        app.router.add_get("/sim/state", self.state)
        app.router.add_get("/sim/changes", self.changes)
        app.router.add_post("/sim/people", self.add_person)
        app.router.add_post("/sim/channels", self.add_channel)
        app.router.add_post("/sim/roles", self.add_role)
        app.router.add_get("/sim/people/{person}/channels", self.channels)
        app.router.add_get("/sim/people/{person}/channels/{channel}", self.messages)
        app.router.add_post("/sim/people/{person}/roles", self.hold)
        app.router.add_post("/sim/people/{person}/{act}", self.act)
        app.router.add_static("/sim/", PAGE)

    async def health(self, _: web.Request) -> web.Response:
        """That it is there, for who started it."""
        return web.json_response({"ok": True})

    async def page(self, _: web.Request) -> web.FileResponse:
        """The chat, for a browser."""
        return web.FileResponse(PAGE / "index.html")

    async def state(self, _: web.Request) -> web.Response:
        """What there is: people, roles, commands, and what was done wrong."""
        sim = self._sim
        return web.json_response(
            {
                "guild": sim.guild.id,
                "bot": sim.guild.bot_id,
                "is_connected": sim.gateway.is_connected,
                "people": [one for one in sim.guild.users.values() if not one["bot"]],
                "members": {one: said["roles"] for one, said in sim.guild.members.items()},
                "may": {one: str(sim.guild.may(one)) for one in sim.guild.members},
                "roles": list(sim.guild.roles.values()),
                "commands": [one for several in sim.commands.values() for one in several],
                "violations": sim.record.violations,
                "own_faults": sim.record.own_faults,
                "changes": sim.record.changes,
            }
        )

    async def changes(self, request: web.Request) -> web.Response:
        """Wait until there is more than was seen; how much there is now."""
        seen, record = int(request.query.get("after", "-1")), self._sim.record
        await record.wait(lambda: record.changes > seen, CHANGE_S_MAX)
        return web.json_response({"changes": record.changes})

    async def add_person(self, request: web.Request) -> web.Response:
        """Somebody new, with `name` and perhaps `roles` by id."""
        said = await request.json()
        person = self._sim.person(said["name"], *said.get("roles", []))
        return web.json_response({"id": person.id})

    async def add_channel(self, request: web.Request) -> web.Response:
        """A new channel, with `name` and perhaps `kind`: 0 is text, 15 a forum."""
        said = await request.json()
        kind = said.get("kind", shapes.TEXT)
        return web.json_response({"id": await self._sim.add_channel(said["name"], kind)})

    async def add_role(self, request: web.Request) -> web.Response:
        """A new role, with `name`; `person` has it at once, if one is named."""
        said = await request.json()
        identity = await self._sim.add_role(said["name"])
        if said.get("person"):
            self._sim.guild.member(said["person"])["roles"].append(identity)
        return web.json_response({"id": identity})

    async def hold(self, request: web.Request) -> web.Response:
        """Let somebody have a role, or no longer, by `role` and `is_held`."""
        said = await request.json()
        member = self._sim.guild.member(request.match_info["person"])
        role = self._sim.guild.role(said["role"])["id"]
        held = [one for one in member["roles"] if one != role]
        member["roles"] = [*held, role] if said["is_held"] else held
        await self._sim.record.tell()
        return web.json_response(member["roles"])

    async def channels(self, request: web.Request) -> web.Response:
        """The channels and threads that somebody sees."""
        guild, person = self._sim.guild, request.match_info["person"]
        everything = guild.channels.values()
        return web.json_response([one for one in everything if guild.sees(person, one["id"])])

    async def messages(self, request: web.Request) -> web.Response:
        """The messages that somebody sees in a channel."""
        person = Person(self._sim, request.match_info["person"])
        return web.json_response(person.sees(request.match_info["channel"]))

    async def act(self, request: web.Request) -> web.Response:
        """Let somebody do something; 409 with the reason if their client does not offer it."""
        act = self._acts.get(request.match_info["act"])
        if act is None:
            return _refused(404, f"there is no such act; there are {sorted(self._acts)}")
        person = Person(self._sim, request.match_info["person"])
        try:
            return web.json_response(await act(person, await request.json()))
        except NotOffered as error:
            return _refused(409, str(error))
        except ApiError as error:
            return _refused(404, error.message)
        except (KeyError, json.JSONDecodeError) as error:
            return _refused(400, f"the body lacks {error}")

    async def _slash(self, person: Person, said: Json) -> Json:
        given = {name: _value(one) for name, one in said.get("options", {}).items()}
        return await self._told(await person.slash(said["channel"], said["command"], **given))

    async def _autocomplete(self, person: Person, said: Json) -> Json:
        given = {said["option"]: said["typed"]} | said.get("options", {})
        where, command = said["channel"], said["command"]
        return {"choices": await person.autocomplete(where, command, said["option"], **given)}

    async def _click(self, person: Person, said: Json) -> Json:
        message = self._message(said)
        return await self._told(await person.click(message, custom_id=said["custom_id"]))

    async def _select(self, person: Person, said: Json) -> Json:
        message, custom_id = self._message(said), said["custom_id"]
        doing = await person.select(message, said["values"], custom_id=custom_id)
        return await self._told(doing)

    async def _fill_in(self, person: Person, said: Json) -> Json:
        doing = self._doings[said["interaction"]]
        return await self._told(await person.fill_in(doing, said["values"]))

    def _message(self, said: Json) -> Json:
        return self._sim.messages[said["channel"]][said["message"]]

    async def _told(self, doing: Doing) -> Json:
        """What became of it within Discord's time; the answer itself is among the messages."""
        one, record = doing.interaction, self._sim.record
        await record.wait(lambda: one.callback is not None or one.is_failed, DOING_S_MAX)
        if one.modal:
            self._doings[one.id] = doing
        return {
            "interaction": one.id,
            "is_failed": one.is_failed,
            "message": one.original_id,
            "modal": one.modal,
        }


@web.middleware
async def _from_here(request: web.Request, handler: Handler) -> web.StreamResponse:
    """No other page in the same browser may act here; browsers say whose page asks."""
    asks = request.headers.get("Sec-Fetch-Site", "none")
    if request.path.startswith("/sim/") and asks not in ("none", "same-origin"):
        return _refused(403, "ask from the simulator's own page")
    return await handler(request)


def _value(said: Any) -> Any:
    """An option's value; a file is an object with `name`, `media` and `base64`."""
    if not isinstance(said, dict):
        return said
    media = said.get("media", "application/octet-stream")
    return Blob(said["name"], media, base64.b64decode(said["base64"]))


def _refused(status: int, detail: str) -> web.Response:
    return web.json_response({"detail": detail}, status=status)
