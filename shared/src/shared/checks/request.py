"""What an agent gets to check: the files of a problem, by digest, and its GPU types."""

import msgspec

from shared.errors import Refused

REPORT_NAME = "check.json"


class CheckRequest(msgspec.Struct, frozen=True):
    """A problem to check; compiled, its files have this digest."""

    slug: str
    digest: str
    gpus: list[str]
    files: dict[str, str]


def encode_request(request: CheckRequest) -> bytes:
    """Return the request as the agent gets it."""
    return msgspec.json.encode(request)


def read_request(data: bytes) -> CheckRequest:
    """Read a request. Raises `Refused` if it is malformed."""
    try:
        return msgspec.json.decode(data, type=CheckRequest)
    except msgspec.DecodeError as error:
        raise Refused(
            "invalid_request", f"this is not a request to check a problem: {error}"
        ) from error
