"""How long ingest answers 503 at its start, and what it needs for so many account events.

`python -m bench.start [--smoke]`. The log has as many events of other kinds in between. Three
starts of a real ingest in one run: on an empty log, on the long one without a snapshot, and on the
long one with the snapshot that the start before left. The goal: 503 for at most 2 s, from when it
listens, with 100,000 account events.
"""

import argparse
import asyncio
import hashlib
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from bench.noop_platform import load, peak_mib
from bench.replay_place import Ground, ask
from shared import subjects
from shared.bus_keys.login import BusLogin
from shared.events import AccountOpened, Fact, JobRequeued, TokenIssued, TokenRevoked
from shared.nats.batches import BATCH_MAX, MessageDraft, publish_batch
from shared.nats.connection import connect
from shared.nats.streams import ensure_streams
from shared.subjects import derive_id
from shared.wire import EventMetadata, encode_envelope, make_envelope

LONG, SMOKE = 100_000, 2_000
TOKENS_PER_ACCOUNT = 4
# Of the tokens some are revoked, and most have expired, as logins in a browser do.
REVOKED, EXPIRED = 5, 2
GOAL_S = 2.0
START_S_MAX = 300.0
LOOK_S = 0.01
AT = datetime(2026, 1, 1, tzinfo=UTC)
NEVER = AT + timedelta(days=36_500)


class Start(NamedTuple):
    """One start: for how long it refused, when it was well, and the most memory it had used."""

    refuses_s: float
    well_s: float
    mib: float


def told() -> Iterator[tuple[str, Fact]]:
    """Accounts with their tokens, for ever, each event followed by one of another kind."""
    number = 0
    while True:
        account = subjects.account(f"account{number}")
        facts: list[Fact] = [AccountOpened(via="bench")]
        for place in range(TOKENS_PER_ACCOUNT):
            name = f"{number}/{place}"
            token = derive_id(name, "token")
            issued = TokenIssued(
                token=token,
                token_hash=hashlib.sha256(name.encode()).hexdigest(),
                kind="api",
                scopes=["submit", "submit:ranked", "read:own"],
                expires_at=AT if place < EXPIRED else NEVER,
            )
            facts.append(issued)
            if (number + place) % REVOKED == 0:
                facts.append(TokenRevoked(token=token, reason="bench"))
        for place, fact in enumerate(facts):
            yield account, fact
            job = subjects.job(derive_id(f"{number}/{place}", "job"))
            yield job, JobRequeued(run="r", reason="bench")
        number += 1


async def fill(login: BusLogin, count: int) -> None:
    """Write `count` events of accounts, and as many others."""
    nc = await connect(login, "bench")
    await ensure_streams(nc)
    events = islice(told(), 2 * count)
    seq = 0
    while batch := list(islice(events, BATCH_MAX)):
        drafts = []
        for aggregate, fact in batch:
            seq += 1
            stamp = EventMetadata(
                derive_id(str(seq), "event"), AT, "service:bench", "bench", "bench"
            )
            body = encode_envelope(make_envelope(fact, aggregate, stamp))
            drafts.append(MessageDraft(subjects.subject(aggregate), stamp.id, body, None))
        await publish_batch(nc, drafts)
    await nc.close()


def start(ground: Ground) -> Start:
    """Start ingest, wait until it is well, and stop it."""
    url = f"{ground.url('ingest')}/health"
    with ground.service("ingest") as running:
        listens_s = 0.0
        while ask(url) is None:
            took_s = time.monotonic() - running.began
            assert running.process.poll() is None, "ingest has ended: see its log"
            assert took_s < START_S_MAX, f"not well within {START_S_MAX} s"
            listens_s = listens_s or (took_s if is_listening(ground) else 0.0)
            time.sleep(LOOK_S)
        well_s = time.monotonic() - running.began
        refuses_s = max(LOOK_S, well_s - listens_s) if listens_s else LOOK_S
        return Start(refuses_s, well_s, peak_mib(running.process.pid))


def is_listening(ground: Ground) -> bool:
    """Whether ingest takes connections."""
    port = f":{ground.place.ports['ingest']:04X}"
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return any(row[1].endswith(port) and row[3] == "0A" for row in rows)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.start", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="with few events, in seconds")
    count = SMOKE if parser.parse_args().smoke else LONG
    with tempfile.TemporaryDirectory() as home:
        ground = Ground(Path(home))
        try:
            starts = {"empty log": start(ground)}
            asyncio.run(fill(ground.nats.login(), count))
            starts["without a snapshot"] = start(ground)
            starts["with a snapshot"] = start(ground)
        finally:
            ground.stop()
    print(f"  {count} account events among {2 * count} ({load()})")
    for name, one in starts.items():
        refuses = f"503 for {one.refuses_s:5.2f} s"
        print(
            f"  {name:>20}  {refuses}, well {one.well_s:5.2f} s after its start, {one.mib:.0f} MiB"
        )
    _, slow, fast = starts.values()
    print(f"  a snapshot saves {slow.refuses_s / fast.refuses_s:.1f} times; goal {GOAL_S:g} s")


if __name__ == "__main__":
    main()
