"""The bus accounts of `deploy/nats`, made of the one list of what an agent may do."""

from pathlib import Path

from shared.servers.nats import (
    SERVICES,
    EnvironmentVariable,
    agent_account,
    agent_name,
    render_server_config,
    services_account,
)

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
