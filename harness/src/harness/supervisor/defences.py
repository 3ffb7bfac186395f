"""What protects a call, each part a switch, so that tests can show what happens without it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Defences:
    """All are on, always; a test turns one off, and the exploit it is for must then succeed."""

    starts_before_thaw: bool = True
    stops_after_snapshot: bool = True
    freezes: bool = True
    poisons: bool = True
    has_fresh_inputs: bool = True
    has_nonce: bool = True
    requires_silence: bool = True
    seals: bool = True
    requires_stillness: bool = True
    compares_all: bool = True
    keeps_inputs_private: bool = True
    weighs_work: bool = True
    hides_network: bool = True
    limits_addresses: bool = True
    pins_cores: bool = True
    blames_unstoppable: bool = True
    attributes_memory_kills: bool = True
    has_bare_null: bool = True


ALL = Defences()
