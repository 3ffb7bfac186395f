"""What a problem's reference.py must define, and whether its cases are arguments of its generator.

The file is read, not run: what it makes while it is imported nobody knows before a run does.
"""

from collections.abc import Mapping, Sequence

from shared.problems.cases import Case
from shared.problems.document import Document, bad_problem
from shared.problems.python import read_module
from shared.problems.sources import REFERENCE

FUNCTIONS = ("generate_input", "ref_kernel", "check_implementation")


def check_reference(
    document: Document, data: bytes, cases: Mapping[str, Sequence[Case]], *, is_ranked: bool
) -> None:
    """Errors: Refused, with the function that is missing, or the case that cannot be made.

    `is_ranked`: each case also goes to every rank, with its number as `rank`.
    """
    module = read_module(REFERENCE, data)
    missing = [name for name in FUNCTIONS if not module.has(name)]
    if missing:
        what = f"defines no {', no '.join(missing)}: define {', '.join(FUNCTIONS)}"
        raise bad_problem(f"{REFERENCE} {what}", REFERENCE)
    takes = module.signature(FUNCTIONS[0])
    for key, found in cases.items():
        for index, case in enumerate(found):
            given = {**case.args, "rank": 0} if is_ranked else case.args
            if said := takes.complaint(given):
                what = f"this case {said}: {FUNCTIONS[0]} in {REFERENCE} takes "
                document.refuse((key, index), what + (", ".join(takes.takes) or "nothing"))
