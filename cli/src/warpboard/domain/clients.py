"""What a client of the Model Context Protocol is told, to start our server."""

from collections.abc import Mapping

from warpboard.domain.answers import Answer


def configuration(options: Mapping[str, str]) -> Answer:
    """The entry of a client's configuration, with the options that the server is to have.

    >>> configuration({"--url": "http://h"})["mcpServers"]["warpboard"]["args"]
    ['mcp', '--url', 'http://h']
    """
    words = [word for name, value in options.items() for word in (name, value)]
    return {"mcpServers": {"warpboard": {"command": "warpboard", "args": ["mcp", *words]}}}
