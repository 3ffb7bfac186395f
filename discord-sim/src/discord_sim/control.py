"""The control API, with which a page or another process acts as simulated users."""

import base64
import json
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from discord_sim import shapes
from discord_sim.cdn import FileUpload
from discord_sim.shapes import ActionNotOffered, ApiError, Json
from discord_sim.simulator import Simulator
from discord_sim.users import SimulatedUser, UserAction

CHANGE_S_MAX = 20.0
ACTION_S_MAX = 5.0
PAGE = Path(__file__).parent / "page"
ACTIONS = ("autocomplete", "click", "fill_in", "select", "slash")


class Control:
    """The routes under /sim; their only protection is that they listen on loopback."""

    def __init__(self, sim: Simulator) -> None:
        self._sim = sim
        self._open_modals: dict[str, UserAction] = {}

    def add_to(self, app: web.Application) -> None:
        """Add the routes to an application."""
        app.middlewares.append(_check_origin)
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
        """Answer health checks."""
        return web.json_response({"ok": True})

    async def page(self, _: web.Request) -> web.FileResponse:
        """Serve the chat page."""
        return web.FileResponse(PAGE / "index.html")

    async def state(self, _: web.Request) -> web.Response:
        """Return users, roles, commands and violations."""
        sim = self._sim
        members = sim.guild.members
        state = {
            "guild": sim.guild.id,
            "bot": sim.guild.bot_id,
            "owner": sim.guild.owner_id,
            "is_connected": sim.gateway.is_connected,
            "people": [user for user in sim.guild.users.values() if not user["bot"]],
            "members": {identity: member["roles"] for identity, member in members.items()},
            "may": {identity: str(sim.guild.may(identity)) for identity in members},
            "roles": list(sim.guild.roles.values()),
            "commands": [command for group in sim.commands.values() for command in group],
            "violations": sim.record.violations,
            "own_faults": sim.record.own_faults,
            "changes": sim.record.changes,
        }
        return web.json_response(state)

    async def changes(self, request: web.Request) -> web.Response:
        """Wait until there are more changes than `after`, and return their number."""
        after, record = int(request.query.get("after", "-1")), self._sim.record
        await record.wait(lambda: record.changes > after, CHANGE_S_MAX)
        return web.json_response({"changes": record.changes})

    async def add_person(self, request: web.Request) -> web.Response:
        """Add a user with a `name` and optional `roles`, by id."""
        body = await request.json()
        person = self._sim.person(body["name"], *body.get("roles", []))
        return web.json_response({"id": person.id})

    async def add_channel(self, request: web.Request) -> web.Response:
        """Add a channel with a `name` and an optional `kind`: 0 is text, 15 a forum."""
        body = await request.json()
        kind = body.get("kind", shapes.TEXT)
        return web.json_response({"id": await self._sim.add_channel(body["name"], kind)})

    async def add_role(self, request: web.Request) -> web.Response:
        """Add a role with a `name`, and give it to `person` if there is one."""
        body = await request.json()
        identity = await self._sim.add_role(body["name"])
        if body.get("person"):
            self._sim.guild.member(body["person"])["roles"].append(identity)
        return web.json_response({"id": identity})

    async def hold(self, request: web.Request) -> web.Response:
        """Give a user a `role`, or remove it, by `is_held`."""
        body = await request.json()
        member = self._sim.guild.member(request.match_info["person"])
        role = self._sim.guild.role(body["role"])["id"]
        other_roles = [held for held in member["roles"] if held != role]
        member["roles"] = [*other_roles, role] if body["is_held"] else other_roles
        await self._sim.record.tell()
        return web.json_response(member["roles"])

    async def channels(self, request: web.Request) -> web.Response:
        """Return the channels and threads that a user sees."""
        guild, person = self._sim.guild, request.match_info["person"]
        channels = guild.channels.values()
        return web.json_response([it for it in channels if guild.sees(person, it["id"])])

    async def messages(self, request: web.Request) -> web.Response:
        """Return the messages that a user sees in a channel."""
        person = SimulatedUser(self._sim, request.match_info["person"])
        return web.json_response(person.sees(request.match_info["channel"]))

    async def act(self, request: web.Request) -> web.Response:
        """Perform a user's action; 409 with the reason if the client does not offer it."""
        act = request.match_info["act"]
        if act not in ACTIONS:
            return _refused(404, f"unknown action; the actions are {list(ACTIONS)}")
        person = SimulatedUser(self._sim, request.match_info["person"])
        try:
            return web.json_response(await self._perform(person, act, await request.json()))
        except ActionNotOffered as error:
            return _refused(409, str(error))
        except ApiError as error:
            return _refused(404, error.message)
        except (KeyError, json.JSONDecodeError) as error:
            return _refused(400, f"the body lacks {error}")

    async def _perform(self, person: SimulatedUser, act: str, body: Json) -> Json:
        match act:
            case "autocomplete":
                option, values = body["option"], {body["option"]: body["typed"]}
                values |= body.get("options", {})
                channel, command = body["channel"], body["command"]
                return {"choices": await person.autocomplete(channel, command, option, **values)}
            case "slash":
                options = body.get("options", {})
                values = {name: _read_value(value) for name, value in options.items()}
                action = await person.slash(body["channel"], body["command"], **values)
            case "fill_in":
                modal = self._open_modals[body["interaction"]]
                action = await person.fill_in(modal, body["values"])
            case "click":
                message = self._message(body)
                action = await person.click(message, custom_id=body["custom_id"])
            case _:
                message, custom_id = self._message(body), body["custom_id"]
                action = await person.select(message, body["values"], custom_id=custom_id)
        return await self._describe(action)

    def _message(self, body: Json) -> Json:
        return self._sim.messages[body["channel"]][body["message"]]

    async def _describe(self, action: UserAction) -> Json:
        interaction, record = action.interaction, self._sim.record
        await record.wait(
            lambda: interaction.callback is not None or interaction.is_failed, ACTION_S_MAX
        )
        if interaction.modal:
            self._open_modals[interaction.id] = action
        return {
            "interaction": interaction.id,
            "is_failed": interaction.is_failed,
            "message": interaction.original_id,
            "modal": interaction.modal,
        }


@web.middleware
async def _check_origin(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse requests from other pages in the same browser."""
    site = request.headers.get("Sec-Fetch-Site", "none")
    if request.path.startswith("/sim/") and site not in ("none", "same-origin"):
        return _refused(403, "ask from the simulator's own page")
    return await handler(request)


def _read_value(value: Any) -> Any:
    """Read the value of an option; a file is an object with `name`, `media` and `base64`."""
    if not isinstance(value, dict):
        return value
    media = value.get("media", "application/octet-stream")
    return FileUpload(value["name"], media, base64.b64decode(value["base64"]))


def _refused(status: int, detail: str) -> web.Response:
    return web.json_response({"detail": detail}, status=status)
