"""`python -m discord_sim`: a Discord on this machine, until Ctrl-C."""

import asyncio
import json
import signal
import sys

from discord_sim.control import Control
from discord_sim.settings import BadSettings, Settings, load
from discord_sim.simulator import Place, Simulator


async def serve(settings: Settings) -> None:
    """Run until told to stop; the first line that is printed says where everything is."""
    place = Place(settings.host, settings.port, guild=settings.guild)
    sim = Simulator(settings.judges(), place, settings.token)
    sim.extras.append(Control(sim).add_to)
    stopping = asyncio.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(one, stopping.set)
    async with sim:
        await sim.add_channel("lobby")
        told = {
            "url": sim.url,
            "page": f"{sim.url}/sim/",
            "control": f"{sim.url}/sim",
            "guild": sim.guild.id,
            "owner": sim.guild.owner_id,
        }
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        await stopping.wait()


def main() -> int:
    """The command; exit 2 for settings that cannot be used, an address that is taken among them."""
    try:
        asyncio.run(serve(load()))
    except (BadSettings, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
