"""Nothing of discord.py is touched: Discord's own host names, over TLS, lead to the simulator."""

import ssl
from pathlib import Path

import pytest
import trustme

from discord_sim.documents import Validators
from discord_sim.simulator import ServerOptions, Simulator
from tests.discord.bot_process import BotProcess
from tests.discord.test_wire import BOARD, KERNEL, SUBMIT

NAMES = ("discord.com", "gateway.discord.gg", "cdn.discordapp.com")


@pytest.mark.timeout(120)
async def test_the_bot_finds_discord_where_its_names_lead(
    tmp_path: Path, validators: Validators
) -> None:
    authority = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*NAMES).configure_cert(tls)
    pem = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(pem)
    async with Simulator(validators, ServerOptions(tls=tls, public_names=True)) as sim:
        bot = BotProcess(sim, tmp_path / "log.txt")
        address = f"127.0.0.1:{sim.port}"
        try:
            await bot.ready(BOT_CONNECT_TO=address, BOT_API="", SSL_CERT_FILE=str(pem))
            ada, channel = sim.person("ada"), await sim.add_channel("submissions")
            doing = await ada.slash(channel, SUBMIT, script=KERNEL, **BOARD)
            assert "kernel.py" in (await doing.answered())["content"]
            await sim.gateway.drop()
            await sim.record.until(lambda: sim.gateway.resumed, "a RESUME", 30)
        finally:
            await bot.stop()
        assert not sim.record.own_faults
        assert not sim.record.violations
