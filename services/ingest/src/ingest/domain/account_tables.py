"""Which tables of accounts the log goes with, and what is told while they are lost."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.decider import Decider
from shared.errors import Refused
from shared.events import AccountTablesAdopted, Fact

LOST = (
    "the platform has lost its table of names: nobody gets a name until an operator has restored "
    "the backup (`warpboard restore`), or begins anew (`warpboard admin accounts adopt`)"
)


@dataclass(frozen=True)
class Adopt:
    """Let names be given in the tables of this register."""

    register: str
    reason: str


def decide(command: Adopt, state: str | None) -> Sequence[Fact]:
    """The adoption; nothing if it is so already."""
    if state == command.register:
        return ()
    return (AccountTablesAdopted(register=command.register, reason=command.reason),)


def evolve(state: str | None, fact: Fact) -> str | None:
    """The register that was adopted last."""
    return fact.register if isinstance(fact, AccountTablesAdopted) else state


tables = Decider[Adopt, str | None, Fact](None, decide, evolve)


def accounts_lost() -> Refused:
    """Why nobody gets a name, or comes by one, while the tables are lost."""
    return Refused("accounts_lost", LOST)


def name_lost(account: str) -> Refused:
    """Why an account without a name cannot have what lies beside names."""
    what = (
        f"the platform lost the name of your account {account}: ask an operator to give it one "
        f"(`warpboard admin participant rename {account} NAME`), then do this again"
    )
    return Refused("name_lost", what)
