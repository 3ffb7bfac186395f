"""Before a submission's workers start: what its source needs compiled, from the cache or anew."""

import contextlib
import math
import os
import time

from harness.devices.device import DeviceFault
from harness.supervisor.guests import Guests
from harness.supervisor.team import Team
from harness.supervisor.verdict import CaseFailed
from harness.toolchains import plan
from harness.toolchains.cache import Cache, sealed, taken
from harness.toolchains.command import BuildRefused
from harness.toolchains.plan import Plan, ToolMissing
from harness.worker import protocol


def prepare(guests: Guests, cache: Cache, deadline: float, *, is_last: bool = True) -> None:
    """Leaves in `guests` what every worker is to be given; the `last` closes the cache.

    Errors: CaseFailed, if the submission cannot be built; DeviceFault, if nothing could be here.
    """
    try:
        made = _planned(guests)
    except BuildRefused as refused:
        raise CaseFailed("compile_error", str(refused)) from refused
    except ToolMissing as missing:
        raise DeviceFault(str(missing)) from missing
    # A builder that imports the submission looks for the entry, too.
    guests.given = {"entry": guests.home.problem.entry}
    data = _found(guests, made, cache, deadline)
    if made.is_native and not data:
        raise CaseFailed("compile_error", "the builder handed nothing over")
    if made.is_native:
        guests.given["launch"] = made.launch
    if data:
        guests.built = (sealed(data),)
    if guests.home.problem.lang == "py" and is_last:
        # The author's code comes next, and others' runs believe what they find in there.
        cache.close()


def program(guests: Guests, deadline: float) -> tuple[int, ...]:
    """The descriptor of a problem's own program, built with the submission; `guests` closes it.

    Errors: as `prepare`.
    """
    home, workshop = guests.home, guests.place.workshop
    try:
        order = plan.program(workshop, home.problem, guests.path(), guests.scratch())
    except ToolMissing as missing:
        raise DeviceFault(str(missing)) from missing
    data = _built(guests, Plan("", order), deadline)
    if not data:
        raise CaseFailed("compile_error", "the builder handed nothing over")
    guests.built = (sealed(data),)
    return guests.built


def _planned(guests: Guests) -> Plan:
    """Errors: BuildRefused; ToolMissing."""
    home, workshop = guests.home, guests.place.workshop
    source = (home.submission / home.problem.submission).read_bytes()
    others = sorted(one for one in home.submission.iterdir() if one.name != home.problem.submission)
    texts = (source, *(one.name.encode() + b"\0" + one.read_bytes() for one in others))
    if home.problem.lang == "py":
        return plan.plan(workshop, texts, guests.path(), guests.scratch())
    return plan.plan_driven(workshop, home.problem, texts, guests.path(), guests.scratch())


def _found(guests: Guests, made: Plan, cache: Cache, deadline: float) -> bytes | None:
    """What was built before, or is built now; None where the first worker makes it."""
    data = cache.get(made.key)
    if data is None and (made.is_native or made.is_heavy):
        data = _built(guests, made, deadline)
        if data:
            # What cannot be kept is built again the next time.
            with contextlib.suppress(OSError):
                cache.put(made.key, data)
    return data


def _built(guests: Guests, made: Plan, deadline: float) -> bytes:
    """What a builder hands over; nobody but workers of the same source ever looks into it."""
    memory = os.memfd_create("built", os.MFD_CLOEXEC)
    try:
        if made.order is not None:
            team = guests.start_builder({"order": made.order.to_json()}, (memory,))
            _compiled(guests, team, deadline)
        else:
            team = guests.start_builder(guests.given, ())
            guests.welcome(team, deadline)
            team.send(0, protocol.PACK, (memory,))
            guests.welcome(team, deadline)
        team.end()
        return taken(memory)
    finally:
        os.close(memory)


def _compiled(guests: Guests, team: Team, deadline: float) -> None:
    """Waits for a compiler; where it cannot say itself how it ended, the log is told here.

    Errors: CaseFailed.
    """
    limit_s = max(0, math.ceil(deadline - time.monotonic()))
    try:
        guests.welcome(team, deadline, f"the compiler was stopped after {limit_s} s")
    except CaseFailed as failure:
        if failure.is_last:
            team.end()
            guests.log.add(f"{failure.message}\n".encode())
        raise
