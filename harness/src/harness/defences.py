"""The one seam for tests: what they switch off or replace in a supervisor.

In production every defence is on and nothing is replaced. A test shows what happens without a
defence: the matching exploit must then succeed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True)
class Defences:
    """All are always on; a test turns one off, and the matching exploit must then succeed."""

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
    hides_network: bool = True
    limits_addresses: bool = True
    pins_cores: bool = True
    blames_unstoppable: bool = True
    attributes_memory_kills: bool = True
    has_bare_null: bool = True


ALL_DEFENCES = Defences()


@dataclass(frozen=True)
class Overrides:
    """What a test replaces in a supervisor, from its options of the same names.

    `defences_file` names the defences to turn off, as a JSON list that is read before each run.
    `without` are walls to leave out. `launcher` is the one that builds the boxes: `bubblewrap`
    builds the same walls another way, so that every promise of the sandbox is checked against two
    constructions. `ncu` is a stand-in profiler for any device. Without `records_calls`, no further
    call shows what produced the answers; that decides no verdict, but takes seconds on a GPU.
    `module_loading` is LAZY or EAGER for the GPU's contexts, to compare the two.
    `spare_s_max` is how long spares wait, and `end_s_max` limits how long killed processes may take
    to end; 0 is the usual limit.
    """

    defences_file: str = ""
    without: tuple[str, ...] = ()
    launcher: str = "zygote"
    ncu: str = ""
    records_calls: bool = True
    module_loading: str = ""
    end_s_max: float = 0.0
    spare_s_max: float = 0.0

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Return the overrides among the options of a supervisor."""
        return cls(
            defences_file=options.get("defences_file", ""),
            without=tuple(options.get("without", ())),
            launcher=options.get("launcher", "zygote"),
            ncu=options.get("ncu", ""),
            records_calls=options.get("records_calls", True),
            module_loading=options.get("module_loading", ""),
            end_s_max=options.get("end_s_max", 0.0),
            spare_s_max=options.get("spare_s_max", 0.0),
        )

    def read_defences(self) -> Defences:
        """Return the defences of the next run, from `defences_file`."""
        names = json.loads(Path(self.defences_file).read_text(encoding="utf-8"))
        return Defences(**dict.fromkeys(names, False))
