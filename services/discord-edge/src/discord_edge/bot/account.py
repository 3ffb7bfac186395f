"""`/account …`: how one is told, a CLI id linked, one's own tokens; none is made in a chat."""

from datetime import datetime
from typing import Any, Literal

from discord import app_commands

from discord_edge.bot.asking import Here, say, user_of
from discord_edge.bot.paging import NOBODY
from discord_edge.bot.staff import Number, Question, told
from discord_edge.domain.wishes import GPUS_MAX
from discord_edge.domain.wording import escaped
from shared.errors import Refused

ASKED_S_MAX = 120.0

Event = Literal["overtaken", "run finished", "deadline near", "my lines for everybody"]
How = Literal["thread", "dm", "on", "off"]
Threads = Literal["per submission", "per problem", "as the server has it"]
LINE = "my lines for everybody"
EVENTS = {
    "overtaken": "overtaken",
    "run finished": "run_finished",
    "deadline near": "deadline_near",
    LINE: "ranked_line",
}
THREADS = {
    "per submission": "per_submission",
    "per problem": "per_problem",
    "as the server has it": "default",
}
HOWS = {
    "off": "no",
    "thread": "in your thread of the submission, or by letter where there is none",
    "dm": "by letter",
    "on": "yes",
}


def _at(text: str | None) -> str:
    """An instant on the reader's own clock."""
    return "never" if not text else f"<t:{int(datetime.fromisoformat(text).timestamp())}:R>"


async def _tokens(here: Here) -> list[dict[str, Any]]:
    """One's own; nothing of who is not known yet. Errors: Refused; Failed."""
    try:
        answer = await here.client.api.get(user_of(here), "tokens")
    except Refused as refused:
        if refused.code == NOBODY:
            return []
        raise
    items: list[dict[str, Any]] = answer["items"]
    return items


async def own_tokens(here: Here, typed: str) -> list[app_commands.Choice[int]]:
    """One's own tokens, by number and name."""
    items = (await here.client.memory.get(user_of(here), "tokens")).get("items", [])
    return [
        app_commands.Choice(name=f"{one['id']} {one['name']}"[:100], value=int(one["id"]))
        for one in reversed(items)
        if typed.lower() in f"{one['id']} {one['name']}".lower()
    ][:GPUS_MAX]


class Account(app_commands.Group):
    """The commands about oneself."""

    def __init__(self) -> None:
        super().__init__(name="account", description="Your own account", guild_only=True)

    @app_commands.command(name="link", description="Let a client in a terminal act for you")
    @app_commands.describe(cli_id="The id that your client wrote into its settings")
    @app_commands.rename(cli_id="id")
    async def link(self, here: Here, cli_id: app_commands.Range[str, 1, 256]) -> None:
        """Say who asked for an id; once that is confirmed, let it act."""
        await here.response.defer(ephemeral=True, thinking=True)
        api, user, path = here.client.api, user_of(here), ("auth", "link")
        asked = {"cli_id": cli_id.strip()}
        found = await api.act(user, f"{here.id}-look", *path, **asked, confirm=False)
        view = Question(here.user.id, "Link it", "Do not", ASKED_S_MAX)
        await here.edit_original_response(
            content=f"A client asked for this id {_at(found['requested_at'])}, from the network "
            f"{escaped(str(found['network']))}. Did you start this yourself, a moment ago? "
            "Then it may submit for you, for 90 days; `/account revoke` ends that.",
            view=view,
        )
        if not await view.answered():
            await say(here, "Nothing was linked.")
            return
        made = await api.act(user, f"{here.id}-link", *path, **asked, confirm=True)
        name = escaped(str(made["user_name"]))
        await say(here, f"Linked: the client acts for {name} now, as token {made['token_id']}.")

    @app_commands.command(name="tokens", description="What acts for you: clients, browsers, tokens")
    async def tokens(self, here: Here) -> None:
        """One's own tokens, without their texts."""
        await here.response.defer(ephemeral=True, thinking=True)
        lines = [
            f"**{one['id']}** {escaped(str(one['name']))} · {one['kind']} · used "
            f"{_at(one['last_used_at'])} · ends {_at(one['expires_at'])} · "
            f"{escaped(', '.join(one['scopes']))}"
            for one in await _tokens(here)
        ]
        await told(here, lines, "You have no tokens.")

    @app_commands.command(name="revoke", description="Let a token act for you no longer")
    @app_commands.autocomplete(token=own_tokens)
    async def revoke(self, here: Here, token: Number) -> None:
        """End one, everywhere within a second."""
        await here.response.defer(ephemeral=True, thinking=True)
        key = str(here.id)
        await here.client.api.do(user_of(here), "DELETE", "tokens", token, key=key)
        await say(here, f"Token {token} acts for nobody any more.")

    @app_commands.command(name="notify", description="What you are told of, and how")
    @app_commands.describe(
        event="Of what; without it you are shown how it is",
        how="Where you are told; on and off are for your lines for everybody",
        threads="One thread for each submission, or one for all of yours to a problem",
    )
    async def notify(
        self,
        here: Here,
        event: Event | None = None,
        how: How | None = None,
        threads: Threads | None = None,
    ) -> None:
        """Choose how one is told of things, or see what one chose."""
        await here.response.defer(ephemeral=True, thinking=True)
        path = ("me", "preferences")
        if wanted := _wanted(event, how, threads):
            answer = await here.client.api.do(
                user_of(here), "PUT", *path, key=str(here.id), **wanted
            )
            lines = ["From now on:", *_chosen(answer), *_unheard(here)]
            await say(here, "\n".join(lines))
            return
        try:
            answer = await here.client.api.get(user_of(here), *path)
        except Refused as refused:
            if refused.code != NOBODY:
                raise
            await say(here, "You are told of nothing but what is decided of your submissions.")
            return
        await say(here, "\n".join([*_chosen(answer), *_unheard(here)]))


def _unheard(here: Here) -> list[str]:
    """What to add where the bot does not hear of what happens, so that nobody waits for it."""
    if here.client.pairing is not None:
        return []
    return ["This bot answers commands alone for now: nothing is told here until that is changed."]


def _wanted(event: str | None, how: str | None, threads: str | None) -> dict[str, str]:
    """What is to be otherwise. Errors: Refused for half a wish, and for what does not fit."""
    if (event is None) != (how is None):
        raise Refused("bad_query", "event and how go together: say both, or neither", "how")
    wanted = {"threads": THREADS[threads]} if threads else {}
    if event is None or how is None:
        return wanted
    if (event == LINE) != (how in ("on", "off")) and how != "off":
        fit = "on or off" if event == LINE else "thread, dm or off"
        raise Refused("bad_query", f"how of {event!r} is {fit}, not {how!r}", "how")
    return {**wanted, EVENTS[event]: how}


def _chosen(said: dict[str, Any]) -> list[str]:
    lines = [f"{event}: {HOWS[said[name]]}" for event, name in EVENTS.items()]
    shown = next(one for one, name in THREADS.items() if name == said["threads"])
    return [*lines, f"private threads: {shown}"]
