"""Submits without end and prints each acknowledgement: `python load.py URL NAME…`.

The tokens of the participants are in WARPBOARD_TOKENS, separated by spaces. A request is repeated
with its key until it is answered, as the command line does. It ends when its input is closed.
"""

import json
import os
import sys
import threading
import time
import uuid
from pathlib import Path

import httpx

EVERY_S = 0.5
PAUSE_S = 0.1
ATTEMPT_S_MAX = 5.0
KERNEL = Path(__file__).parents[3] / "problems/identity/solutions/correct/torch_copy.py"

_is_over = threading.Event()
_printing = threading.Lock()


def write(**values: object) -> None:
    """Print a line of JSON."""
    with _printing:
        sys.stdout.write(f"{json.dumps(values)}\n")
        sys.stdout.flush()


def submit(client: httpx.Client, source: bytes, key: str) -> int | None:
    """Submit once; None if nothing was acknowledged."""
    try:
        response = client.post(
            "/v1/submissions",
            data={"problem": "identity", "mode": "test", "gpu": "CPU"},
            files={"file": ("kernel.py", source)},
            headers={"Idempotency-Key": key},
        )
    except httpx.TransportError as error:
        write(at=time.time(), failure=type(error).__name__)
        return None
    if response.status_code == 202:
        return int(response.json()["submissions"][0]["number"])
    write(at=time.time(), failure=f"{response.status_code} {response.text[:200]}")
    # What is not temporary would be a fault.
    assert response.status_code in {429, 502, 503, 504}, response.text
    return None


def submit_regularly(url: str, token: str, number: int) -> None:
    """Submit every half a second; each source is another one."""
    headers = {"Authorization": f"Bearer {token}"}
    source = KERNEL.read_bytes()
    with httpx.Client(base_url=url, headers=headers, timeout=ATTEMPT_S_MAX) as client:
        while not _is_over.wait(EVERY_S):
            key = uuid.uuid4().hex
            own_source = f"# {number} {key}\n".encode() + source
            while (accepted := submit(client, own_source, key)) is None:
                if _is_over.wait(PAUSE_S):
                    return
            write(at=time.time(), number=accepted)


def main() -> int:
    """Submit as each participant, until the input is closed."""
    url, tokens = sys.argv[1], os.environ["WARPBOARD_TOKENS"].split()
    threads = [
        threading.Thread(target=submit_regularly, args=(url, token, number))
        for number, token in enumerate(tokens)
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    _is_over.set()
    for thread in threads:
        thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
