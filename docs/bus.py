"""The bus accounts of `deploy/nats`, made of the one list of what an agent may do."""

from collections.abc import Mapping
from pathlib import Path

from shared.servers.nats import SERVICES, agent_account, agent_name, services_account


class EnvironmentVariable(str):
    """The name of an environment variable that a server reads the value from."""

    __slots__ = ()


FOLDER = Path(__file__).parent.parent / "deploy" / "nats" / "accounts"
AGENT = "local"
SERVICES_PASSWORD = EnvironmentVariable("WARPBOARD_NATS_PASSWORD")
AGENT_PASSWORD = EnvironmentVariable("WARPBOARD_NATS_PASSWORD_LOCAL")
MADE = "# Made by `make docs` of shared/src/shared/servers/nats.py, which says why.\n"
HOW = """# For another agent, such as gpu7: its file, and an include of it beside that of this one:
#   sed 's/local/gpu7/g; s/LOCAL/GPU7/g' local.conf > gpu7.conf
# Then tell nats-server its password by the environment, and start it anew.
"""


def pages() -> dict[Path, str]:
    """The files as they should be."""
    services = {SERVICES: services_account(SERVICES_PASSWORD)}
    agent = {agent_name(AGENT): agent_account(AGENT, AGENT_PASSWORD)}
    return {
        FOLDER / "services.conf": MADE + render_server_config(services),
        FOLDER / f"{AGENT}.conf": MADE + HOW + render_server_config(agent),
    }


def render_server_config(settings: Mapping[str, object]) -> str:
    """Format settings as a readable nats-server configuration file."""
    return "".join(f"{key}: {_format_value(value, '')}\n" for key, value in settings.items())


def _format_value(value: object, indent: str) -> str:
    if isinstance(value, EnvironmentVariable):
        return f"${value}"
    deeper = f"{indent}  "
    if isinstance(value, Mapping):
        if all(isinstance(item, str) for item in value.values()):
            pairs = ", ".join(
                f"{key}: {_format_value(item, indent)}" for key, item in value.items()
            )
            return f"{{ {pairs} }}"
        lines = "".join(
            f"{deeper}{key}: {_format_value(item, deeper)}\n" for key, item in value.items()
        )
        return f"{{\n{lines}{indent}}}"
    if isinstance(value, list):
        lines = "".join(f"{deeper}{_format_value(item, deeper)}\n" for item in value)
        return f"[\n{lines}{indent}]"
    return f'"{value}"'
