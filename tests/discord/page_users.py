"""Users of the simulated Discord's page, who act over its HTTP requests."""

import base64
import time
from dataclasses import dataclass
from typing import Any

import httpx

from tests.discord.channel_users import message_text
from tests.support.platform import UP_S_MAX

WAIT_S_MAX = 90.0


def read_until(http: httpx.Client, path: str, is_there: Any) -> Any:
    """What a read says once it is so; between two reads, something changed there."""
    seen, said = -1, None
    until = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < until:
        said = http.get(path).json()
        if is_there(said):
            return said
        seen = http.get("/sim/changes", params={"after": seen}).json()["changes"]
    texts = [message_text(it) for it in said[-3:]] if isinstance(said, list) else said
    raise AssertionError(f"{path} is not so: {texts}")


def upload(name: str, data: bytes) -> dict[str, str]:
    """Return a file as the page sends it."""
    return {"name": name, "base64": base64.b64encode(data).decode()}


@dataclass(frozen=True)
class PageUser:
    """A user of the page, in one channel."""

    http: httpx.Client
    id: str
    channel: str

    def send(self, action: str, **fields: Any) -> httpx.Response:
        """Act as the page does."""
        body = {"channel": self.channel, **fields}
        return self.http.post(f"/sim/people/{self.id}/{action}", json=body)

    def use_command(self, command: str, expected: str, **options: Any) -> Any:
        """Use a command, and return its answer once it contains a text."""
        done = self.send("slash", command=command, options=options).json()
        return self.wait_for(done["message"], expected)

    def wait_for(self, message_id: str, expected: str) -> Any:
        """Return a message once it contains a text."""

        def shown(messages: Any) -> Any:
            return [
                it for it in messages if it["id"] == message_id and expected in message_text(it)
            ]

        path = f"/sim/people/{self.id}/channels/{self.channel}"
        return shown(read_until(self.http, path, shown))[0]

    def wait_until_offered(self, leaderboard: str) -> None:
        """Wait until the bot has heard of a leaderboard."""
        until = time.monotonic() + UP_S_MAX
        command = {"command": "leaderboard show", "option": "leaderboard_name"}
        while leaderboard not in [
            choice["value"]
            for choice in self.send("autocomplete", **command, typed=leaderboard).json()["choices"]
        ]:
            assert time.monotonic() < until, f"the bot knows of no leaderboard {leaderboard}"
            time.sleep(0.05)
