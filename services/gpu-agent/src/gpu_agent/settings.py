"""The agent's settings, the only reader of its environment, and the key that they name."""

import base64
import json
import os
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from nacl.signing import SigningKey

from gpu_agent.domain import Demand, parse_demand
from shared.errors import Refused
from shared.events import SLOTS_MAX
from shared.settings import BadSettings, BusSettings, Doc, OpsListen, Tracing, read_settings
from shared.signing import CREDENTIAL_SETTINGS, load_key, open_credential, public_key

PREFIX = "WARPBOARD_GPU_AGENT"
# A job that waits has an agent to itself.
QUIET_WAIT_S_MAX = 600.0
# The most that a setting may be; the least is 0.
RANGES = {
    "gpu_index": 63,
    "build_slots": SLOTS_MAX - 1,
    "spares": 8,
    "quiet_wait_s": QUIET_WAIT_S_MAX,
}


@dataclass(frozen=True)
class Settings(BusSettings):
    """Addresses, the agent's name, its data folder, and what it demands of ranked runs."""

    id: Annotated[str, Doc("the agent's id", "the bus refuses the reports of another id")]
    data: Annotated[
        Path,
        Doc(
            "its folder, which no run can see",
            "a new one: a new key, and no run counts until the agent is enrolled again",
        ),
    ]
    ops_listen: OpsListen
    heartbeat_s: Annotated[
        float,
        Doc(
            "seconds between heartbeats",
            "more: a dead agent is noticed later, after three heartbeats; over 5, a scheduler that "
            "has just started takes live agents for dead",
        ),
    ] = 5.0
    level_min: Annotated[
        str,
        Doc(
            "the lowest [isolation level](docs/isolation.md) for ranked runs",
            "higher than the machine has: no ranked runs; lower than ranker's: runs that are not "
            "ranked",
        ),
    ] = "strong"
    tiers: Annotated[
        str,
        Doc(
            "the [timing tiers](docs/timing.md) for ranked runs, of which the machine needs one",
            "as for `LEVEL_MIN`",
        ),
    ] = "G1 G2 C1"
    device: Annotated[
        str, Doc("what it times: `cpu`, `cuda` or `hip`", "no start without that device")
    ] = "cpu"
    gpu_index: Annotated[
        int,
        Doc(
            "which of the visible GPUs, from 0 to 63",
            "no start without that GPU; two agents with one GPU distort each other's times",
        ),
    ] = 0
    gpu_duels: Annotated[
        bool,
        Doc(
            "offer [duels](docs/timing.md#duels) on a GPU too",
            "true: work that one side leaves running may slow the other, and nothing detects it "
            "yet",
        ),
    ] = False
    build_slots: Annotated[
        int | None,
        Doc(
            "how many runs it [builds](#slots) while another one has the device, up to 63, and on "
            "how many cores of a host with a GPU; by default 1 on a GPU, and on the device `cpu` "
            "the number of cores less one, but no more than the memory has room for",
            "more than the memory has room for: no start; 0: the device is idle during builds",
        ),
    ] = None
    quiet_wait_s: Annotated[
        float,
        Doc(
            "how long a ranked run waits while the machine has more runnable threads than cores, 0 "
            "to 600 s; then it ends as `noisy`, is tried on another agent, and costs no quota",
            "0: it is timed at once and graded `noisy`; high: the queue waits for a busy machine",
        ),
    ] = 60.0
    spares: Annotated[
        int,
        Doc(
            "how many [spare](docs/isolation.md#spares) boxes and processes of runs each slot "
            "keeps ready, 0 to 8; each takes about 30 MB of memory, on a GPU also a context, and "
            "is used once or replaced after 10 minutes",
            "0: each run starts its own, which takes about 60 ms, and seconds on a GPU; high: "
            "memory that nobody uses",
        ),
    ] = 1
    tracing: Tracing = False
    sign_seed: Annotated[
        str,
        Doc(
            "the seed of its signing key, base64; without one, a file in `DATA` holds the key",
            "another seed than the enrolled key's: no run counts",
        ),
    ] = field(default="", repr=False)

    @property
    def sign_key(self) -> Path:
        """The file of the key that signs verdicts; runs never see its folder."""
        return self.data / "sign_key"

    def demand(self) -> Demand:
        """Return what is demanded of ranked runs. Raises Refused."""
        return parse_demand(self.level_min, self.tiers, self.device, has_gpu_duels=self.gpu_duels)


def load() -> Settings:
    """Load the settings. Raises `BadSettings` with everything that is wrong with them.

    A sealed credential, which a launcher gives to the agent of one job, holds some of them, and so
    does the token of `warpboard agent enroll`.
    """
    environ = dict(os.environ)
    if token := environ.pop(f"{PREFIX}_TOKEN", ""):
        # What is set beside it counts: rotated credentials are a file.
        environ = {f"{PREFIX}_{name}": text for name, text in open_token(token).items()} | environ
    sealed, key = (environ.pop(f"{PREFIX}_{name}", "") for name in CREDENTIAL_SETTINGS)
    if sealed:
        opened = open_credential(sealed, key)
        environ |= {f"{PREFIX}_{name}": value for name, value in opened.items()}
    return read_settings(Settings, PREFIX, environ, (Settings.demand, _check_ranges))


def _check_ranges(settings: Settings) -> None:
    problems = [
        f"{PREFIX}_{name.upper()} is {value:g}: expected 0 to {most:g}"
        for name, most in RANGES.items()
        if (value := getattr(settings, name)) is not None and not 0 <= value <= most
    ]
    if problems:
        raise BadSettings(problems)


def open_token(token: str) -> dict[str, str]:
    """Return the settings in the token of an enrolment. Raises Refused `bad_settings`."""
    try:
        text = zlib.decompress(base64.urlsafe_b64decode(token.strip()))
        settings: dict[str, str] = json.loads(text)
    except (ValueError, zlib.error) as error:
        reason = f"{PREFIX}_TOKEN is damaged: copy the whole line of warpboard agent enroll"
        raise Refused("bad_settings", reason) from error
    return settings


def load_agent_key(settings: Settings) -> SigningKey:
    """Load the agent's key: that of its credential, else one that its first start creates.

    Raises Refused and OSError.
    """
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    if settings.sign_seed:
        return SigningKey(base64.b64decode(settings.sign_seed))
    return load_key(settings.sign_key)


def print_key(arguments: Sequence[str]) -> int:
    """Print the public key with which the agent is enrolled; return the exit code."""
    del arguments
    try:
        sys.stdout.write(f"{public_key(load_agent_key(load()))}\n")
    except Refused as refused:
        sys.stderr.write(f"{refused.reason}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0
