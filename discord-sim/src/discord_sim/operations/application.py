"""The bot itself, its application and server, and where the gateway is."""

from discord_sim.errors import unknown
from discord_sim.operations.operation import Answer, Request, operation
from discord_sim.parts import Parts
from discord_sim.shapes import Json

STARTS_A_DAY = 1000


def _application(parts: Parts) -> Json:
    return {
        "id": parts.application_id,
        "name": "warpboard",
        "icon": None,
        "description": "",
        "type": None,
        "verify_key": "0" * 64,
        "flags": 0,
        "flags_new": "0",
        "redirect_uris": [],
        "interactions_endpoint_url": None,
        "role_connections_verification_url": None,
        "owner": parts.guild.users[parts.guild.owner_id],
        "approximate_guild_count": 1,
        "approximate_user_install_count": 0,
        "approximate_user_authorization_count": 0,
        "explicit_content_filter": 0,
        "team": None,
        "eligible_oauth2_scopes": ["bot", "applications.commands"],
        "bot_public": False,
        "bot_require_code_grant": False,
    }


@operation("GET", "/users/@me")
async def get_my_user(parts: Parts, _: Request) -> Answer:
    """The bot, as a user."""
    own = {"mfa_enabled": False, "locale": "en-US", "email": None, "verified": True}
    return 200, parts.guild.bot | own


@operation("GET", "/users/{user_id}")
async def get_user(parts: Parts, request: Request) -> Answer:
    """Anybody."""
    if request.path["user_id"] not in parts.guild.users:
        raise unknown("User", 10013)
    return 200, parts.guild.users[request.path["user_id"]]


@operation("GET", "/oauth2/applications/@me")
async def get_my_oauth2_application(parts: Parts, _: Request) -> Answer:
    """The application, as discord.py asks for it."""
    return 200, _application(parts)


@operation("GET", "/applications/@me")
async def get_my_application(parts: Parts, _: Request) -> Answer:
    """The application."""
    return 200, _application(parts)


@operation("GET", "/gateway", is_open=True)
async def get_gateway(parts: Parts, _: Request) -> Answer:
    """Where the gateway is."""
    return 200, {"url": parts.gateway.url}


@operation("GET", "/gateway/bot")
async def get_bot_gateway(parts: Parts, _: Request) -> Answer:
    """Where the gateway is, and how often one may still begin."""
    limit = {
        "total": STARTS_A_DAY,
        "remaining": STARTS_A_DAY - parts.gateway.identified,
        "reset_after": 86_400_000,
        "max_concurrency": 1,
    }
    return 200, {"url": parts.gateway.url, "shards": 1, "session_start_limit": limit}


@operation("GET", "/guilds/{guild_id}")
async def get_guild(parts: Parts, request: Request) -> Answer:
    """The server."""
    if request.path["guild_id"] != parts.guild.id:
        raise unknown("Guild", 10004)
    return 200, parts.guild.said()


@operation("GET", "/applications/{application_id}/emojis")
async def list_application_emojis(parts: Parts, _: Request) -> Answer:
    """The application's own emojis."""
    return 200, {"items": list(parts.emojis.values())}


@operation("POST", "/applications/{application_id}/emojis")
async def create_application_emoji(parts: Parts, request: Request) -> Answer:
    """One more of them."""
    return 201, parts.add_emoji(request.body["name"])
