"""What programs that others start are told by the environment."""

import os

CREDENTIAL = "WARPBOARD_TOKEN"


def read_token() -> str:
    """Return the token for a platform; neither a trace nor `ps` shows it."""
    return os.environ.get(CREDENTIAL, "")
