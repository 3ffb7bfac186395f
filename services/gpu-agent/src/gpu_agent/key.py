"""The agent's key, which signs its verdicts."""

import base64
import sys
from collections.abc import Sequence

from nacl.signing import SigningKey

from gpu_agent.settings import Settings, load
from shared.errors import Refused
from shared.signing import load_key, public_key


def load_agent_key(settings: Settings) -> SigningKey:
    """Load the agent's key: that of its credential, else one that its first start creates.

    Raises Refused and OSError.
    """
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    if settings.sign_seed:
        return SigningKey(base64.b64decode(settings.sign_seed))
    return load_key(settings.sign_key)


def main(arguments: Sequence[str]) -> int:
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
