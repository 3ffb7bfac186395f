"""The agent's settings, the only reader of its environment, and the key that they name."""

import base64
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nacl.signing import SigningKey

from gpu_agent.domain import Demand, parse_demand
from shared.errors import Refused
from shared.settings import Listen, read_settings
from shared.signing import CREDENTIAL_SETTINGS, load_key, open_credential, public_key

PREFIX = "WARPBOARD_GPU_AGENT"
GPU_INDEX_MAX = 63
# A job that waits has an agent to itself.
QUIET_WAIT_S_MAX = 600.0


@dataclass(frozen=True)
class Settings:
    """Addresses, the agent's name, its data folder, and what it demands of ranked runs.

    `device` is what it times: cpu, cuda or hip. `gpu_index` picks one of the GPUs that this process
    can see, counted from 0. `nats_url` has the agent's own bus user, which has only the rights that
    the agent needs. `gpu_duels` offers duels on a GPU as well. `sign_seed` is the seed of its key,
    base64; without one, the key is in a file. A ranked run waits up to `quiet_wait_s` while the
    machine has more runnable threads than cores, and then fails; with 0 it is timed at once.
    """

    nats_url: str
    id: str
    data: Path
    ops_listen: Listen
    heartbeat_s: float = 5.0
    level_min: str = "strong"
    tiers: str = "G1 G2 C1"
    device: str = "cpu"
    gpu_index: int = 0
    gpu_duels: bool = False
    quiet_wait_s: float = 60.0
    sign_seed: str = ""

    @property
    def sign_key(self) -> Path:
        """The file of the key that signs verdicts; runs never see its folder."""
        return self.data / "sign_key"

    def demand(self) -> Demand:
        """Return what is demanded of ranked runs. Raises Refused."""
        return parse_demand(self.level_min, self.tiers, self.device, has_gpu_duels=self.gpu_duels)


def load() -> Settings:
    """Load the settings. Raises Refused and names everything that is wrong with them.

    A sealed credential, which a launcher gives to the agent of one job, holds some of them.
    """
    environ = dict(os.environ)
    sealed, key = (environ.pop(f"{PREFIX}_{name}", "") for name in CREDENTIAL_SETTINGS)
    if sealed:
        opened = open_credential(sealed, key)
        environ |= {f"{PREFIX}_{name}": value for name, value in opened.items()}
    settings = read_settings(Settings, PREFIX, environ)
    settings.demand()
    if not 0 <= settings.gpu_index <= GPU_INDEX_MAX:
        expected = f"expected 0 to {GPU_INDEX_MAX}"
        raise Refused("bad_settings", f"{PREFIX}_GPU_INDEX is {settings.gpu_index}: {expected}")
    if not 0 <= settings.quiet_wait_s <= QUIET_WAIT_S_MAX:
        mismatch = f"{settings.quiet_wait_s:g}: expected 0 to {QUIET_WAIT_S_MAX:g}"
        raise Refused("bad_settings", f"{PREFIX}_QUIET_WAIT_S is {mismatch}")
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
