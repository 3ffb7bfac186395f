"""An operator's office: the command line on a real platform, and a no-op agent to decide about."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bench.noop_agent import enrolment

from tests.cli.command_runner import run_warpboard
from tests.support.platform import ROOT, Running
from tests.support.waits import until

GPU = "H100"
AGENT = "noop-0"
SLUG = "copied"
WHY = ("--reason", "a system test")


class Said(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it said, for a program."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Office:
    """The command line, in the folder of one platform."""

    running: Running
    workplace: Path

    def say(self, *words: object) -> Said:
        """Run a command; whatever comes of it."""
        result = run_warpboard(*words, "--folder", self.running.folder)
        return Said(result.exit_code, result.stdout, result.stderr)

    def do(self, *words: object) -> Said:
        """Run a command that must end well."""
        said = self.say(*words)
        assert said.code == 0, (words, said)
        return said

    def admin(self, *words: object) -> Said:
        """An operator's decision, which must be made."""
        return self.decide("admin", *words)

    def decide(self, *words: object) -> Said:
        """The same outside the group `admin`."""
        return self.do(*words, "--operator", "olga", *WHY)

    def submit(self, who: str, *options: str, mode: str = "test", name: str = "") -> Said:
        """Submit a file of one's own, as fast as its name makes it; whatever comes of it."""
        file = self.workplace / f"{name or who}.py"
        file.write_text(f"# {name or who}\ndef custom_kernel(data):\n    return data\n")
        where = ("--leaderboard", SLUG, "--gpu", GPU, "--mode", mode, "--as", who)
        return self.say("submit", file, *where, *options)

    def waiting(self, who: str) -> int:
        """The number of a submission that is in, and that nobody waits for."""
        said = self.submit(who, "--no-wait", "--json")
        assert said.code == 0, said
        return int(said.json["submissions"][0]["number"])

    def board(self, *when: str) -> list[str]:
        """Who stands on the leaderboard, best first."""
        said = self.do("leaderboard", "show", SLUG, GPU, "--json", *when)
        (board,) = said.json["leaderboards"]
        return [one["participant"] for one in board["items"]]

    def submission(self, number: int, who: str) -> Any:
        """One submission whole, as its owner sees it."""
        return self.say("submission", "show", number, "--json", "--as", who).json

    def publish(self, seed: int) -> None:
        """A version of the problem, which differs from others by the seed of a case."""
        source, folder = ROOT / "problems" / "identity", self.workplace / SLUG
        shutil.copytree(source, folder, dirs_exist_ok=True)
        task = (source / "task.yml").read_text()
        (folder / "task.yml").write_text(task.replace("seed: 4242", f"seed: {seed}"))
        self.do("problem", "publish", folder, "--unchecked", "only its seed is another")

    def hire(self) -> "subprocess.Popen[bytes]":
        """Enrol and start a no-op agent; returns once it is free."""
        key = enrolment(AGENT)["sign_key"]
        self.decide("agent", "enroll", AGENT, "--key", key, "--owner", "tests")
        told = {"NATS_URL": self.running.bus_login().url, "GPU": GPU}
        told |= {"KEYS": str(self.running.folder / "keys"), "NAMES": "noop", "HEARTBEAT_S": "0.5"}
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.noop_agent"],
            env=os.environ | {f"WARPBOARD_NOOP_{name}": value for name, value in told.items()},
            cwd=ROOT,
            start_new_session=True,
        )
        until(lambda: self.agent()["is_free"])
        return process

    def agent(self) -> Any:
        """The no-op agent, as everybody sees it."""
        items = self.do("agent", "list", "--json").json["items"]
        return next(one for one in items if one["id"] == AGENT)
