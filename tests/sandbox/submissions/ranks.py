"""A submission of two ranks: the later one connects to the earlier one by TCP."""

import json
import os
import socket
import sys

PORT = 29500


def custom_kernel(data: object) -> object:
    """An honest submission."""
    return data


try:
    os.mkdir("first")  # noqa: PTH102
    is_first = True
except FileExistsError:
    is_first = False
if is_first:
    with socket.create_server(("127.0.0.1", PORT)) as server:
        os.mkdir("listening")  # noqa: PTH102
        server.settimeout(10)
        server.accept()[0].close()
else:
    for _ in range(1_000_000):
        if os.path.exists("listening"):  # noqa: PTH110
            break
    socket.create_connection(("127.0.0.1", PORT), 10).close()
sys.stdout.write(json.dumps("called" if is_first else "caller") + "\n")
