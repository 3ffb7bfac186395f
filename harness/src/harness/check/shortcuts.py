"""What a problem's shortcut policy forbids: libraries, and functions that do the same work."""

from collections.abc import Mapping

from harness.check.families import FAMILIES, Family
from harness.problem import ShortcutPolicy
from harness.vocabulary import LIBRARIES

# The modules of Python that call a library.
_MODULES: Mapping[str, tuple[str, ...]] = {
    "cublas": ("cupy.cublas", "nvmath.linalg", "nvidia.cublas"),
    "cudnn": ("cudnn", "nvidia.cudnn"),
    "cufft": ("torch.fft", "cupy.fft", "nvmath.fft"),
    "cusolver": ("cupy.cusolver", "cupyx.cusolver"),
    "cusparse": ("cupy.cusparse", "cupyx.cusparse", "torch.sparse"),
    "cutlass": ("cutlass", "cutlass_library"),
}


class Rules:
    """A policy as the names to look for; each maps to the entry of `forbid` that it falls under.

    `substitute_paths` and `substitute_methods` are functions of other families that can do the same
    work: using them is only doubtful.
    """

    def __init__(self, policy: ShortcutPolicy) -> None:
        self.requires_own_kernel = policy.own_kernel == "required"
        self.libraries = [name for name in policy.forbid if name in LIBRARIES]
        self.paths: dict[str, str] = {}
        self.methods: dict[str, str] = {}
        self.substitute_paths: dict[str, str] = {}
        self.substitute_methods: dict[str, str] = {}
        # The last parts of the names of all these functions.
        self.names: set[str] = set()
        self.operator = ""
        for name in policy.forbid:
            if name in LIBRARIES:
                self.paths |= dict.fromkeys(_MODULES[name], name)
            for family in _find_families(name):
                self._forbid(family, f"{name}, which it calls," if name in LIBRARIES else name)
                self._doubt_substitutes(family, name)

    def _forbid(self, family: Family, entry: str) -> None:
        for path in family.paths():
            self.paths.setdefault(path, entry)
            self.names.add(path.rpartition(".")[2])
        for name in family.operators:
            self.methods.setdefault(name, entry)
        if family.has_operator:
            self.operator = self.operator or entry

    def _doubt_substitutes(self, family: Family, entry: str) -> None:
        for other in FAMILIES:
            if family.title in other.can_do:
                for path in other.paths():
                    self.substitute_paths.setdefault(path, entry)
                for name in other.operators:
                    self.substitute_methods.setdefault(name, entry)

    def entry_of_path(self, path: str) -> str:
        """Return the entry that a dotted name falls under, "" if it is allowed."""
        return _find_prefix(path, self.paths)

    def substituted_entry(self, path: str) -> str:
        """Return the entry whose work a dotted name can do, "" if it can do none."""
        return _find_prefix(path, self.substitute_paths)


def _find_families(name: str) -> list[Family]:
    """Return the families that an entry of `forbid` names; an unknown function is one alone."""
    if name in LIBRARIES:
        return [family for family in FAMILIES if name in family.libraries]
    path = name.removeprefix("torch.")
    last = path.rpartition(".")[2]
    alone = Family("", (path, f"{path}_"), (last, f"{last}_", f"_{last}"))
    return [family for family in FAMILIES if family.has(path)] or [alone]


def _find_prefix(path: str, entries: Mapping[str, str]) -> str:
    while path:
        if path in entries:
            return entries[path]
        path = path.rpartition(".")[0]
    return ""
