"""What a person does to get a token, and what a program does to be given one."""

from dataclasses import dataclass

from ingest.login.service.arrivals import Arrivals
from ingest.login.service.cli_ids import CliIds
from ingest.login.service.devices import Devices
from ingest.login.service.journeys import Journeys
from ingest.login.service.sessions import Sessions
from ingest.service.people import People
from ingest.service.tokens import Tokens
from ingest.service.tries import Tries


@dataclass(frozen=True)
class Logins:
    """All ways in; `public_url` is where people find us.

    `asked` limits CLI ids and `begun` other logins, by the address that asks.
    """

    public_url: str
    cli_ids: CliIds
    devices: Devices
    sessions: Sessions
    arrivals: Arrivals
    journeys: Journeys
    tokens: Tokens
    people: People
    asked: Tries
    begun: Tries
