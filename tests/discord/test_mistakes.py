"""Mistakes that a bot ends of, said by the unmodified discord.py in its own words."""

import asyncio
from pathlib import Path

from discord_sim.documents import Validators
from discord_sim.simulator import Simulator
from tests.discord.bot_process import BotProcess

SAID = {
    "token": "LoginFailure: Improper token has been passed.",
    "intents": "PrivilegedIntentsRequired",
    "command": "In command 'long'",
}


async def test_a_mistake_is_reported_as_discord_does(
    tmp_path: Path, validators: Validators, documents: Validators
) -> None:
    assert documents.document is not None
    async with Simulator(validators) as sim:

        async def last_words(how: str) -> tuple[str, int, str]:
            log = tmp_path / how
            bot = BotProcess(sim, log, "tests.discord.wrong_bot")
            await bot.start(WRONG=how)
            try:
                code = await asyncio.wait_for(bot.ended(), 60)
            finally:
                await bot.stop()
            return how, code, log.read_text()

        for how, code, log in await asyncio.gather(*map(last_words, SAID)):
            assert code == 1
            assert SAID[how] in log, log[-1000:]
        [violation] = sim.record.violations
        assert "description" in violation
        assert "longer than 100" in violation
