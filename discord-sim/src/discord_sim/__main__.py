"""`python -m discord_sim`: run a simulated Discord until Ctrl-C."""

import asyncio
import json
import signal
import sys

from discord_sim.control import Control
from discord_sim.guild import permission_bits
from discord_sim.settings import MANAGE, Settings, SettingsError, load_settings
from discord_sim.simulator import ServerOptions, Simulator


async def serve(settings: Settings) -> None:
    """Run until a signal; the first line of output contains the URLs."""
    options = ServerOptions(settings.host, settings.port, guild=settings.guild)
    sim = Simulator(settings.load_validators(), options, settings.token)
    sim.extras.append(Control(sim).add_to)
    stopping = asyncio.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signal_number, stopping.set)
    # Before a bot can connect, which is told the server's roles once.
    await sim.add_channel("lobby", identity=settings.lobby)
    for role in settings.roles:
        allowed = permission_bits(MANAGE) if role.is_manager else 0
        sim.guild.add_role(role.name, allowed, role.id)
    for user in settings.users:
        sim.guild.add_user(user.name, [user.role] if user.role else [], user.id)
    async with sim:
        addresses = {
            "url": sim.url,
            "page": f"{sim.url}/sim/",
            "control": f"{sim.url}/sim",
            "guild": sim.guild.id,
            "owner": sim.guild.owner_id,
        }
        sys.stdout.write(json.dumps(addresses) + "\n")
        sys.stdout.flush()
        await stopping.wait()


def main() -> int:
    """Run the command; exit with 2 for invalid settings, such as an address in use."""
    try:
        asyncio.run(serve(load_settings()))
    except (SettingsError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
