"""What every fact says of itself, beside what it tells."""

from typing import ClassVar

import msgspec


# A fact has no cycles; the collector need not look at the thousands of a replay.
class Fact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the data of an event is; its class name is the event's type.

    `former_aggregate` is where events of this type lay in older logs.
    """

    aggregate: ClassVar[str] = ""
    former_aggregate: ClassVar[str] = ""
    publisher: ClassVar[str] = ""
    is_terminal: ClassVar[bool] = False
    version: ClassVar[int] = 1
