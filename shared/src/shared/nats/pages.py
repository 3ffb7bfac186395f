"""All messages of one subject, fetched page by page with batched direct gets."""

import asyncio

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared.nats.requests import (
    ATTEMPT_S_MAX,
    MESSAGE_ID,
    Passing,
    Stored,
    answer,
    patiently,
)

PAGE = 256
END_OF_PAGE, NOTHING = "204", "404"


async def pages(nc: Client, stream: str, subject: str, after: int = 0) -> list[Stored]:
    """The messages of a subject after a sequence, in order.

    On a cluster the tail may be missing for a moment.

    Errors: Failed if the server could not be reached in 30 s, for any one page.
    """
    found: list[Stored] = []
    has_more = after == 0 or await patiently(nc, lambda: _has_any(nc, stream, subject, after))

    async def one() -> bool:
        first = (found[-1].seq if found else after) + 1
        ask = {"seq": first, "batch": PAGE, "next_by_subj": subject}
        return await _page(nc, stream, msgspec.json.encode(ask), found)

    while has_more:
        has_more = await patiently(nc, one)
    return found


async def _has_any(nc: Client, stream: str, subject: str, after: int) -> bool:
    """Whether a subject has more: mostly not, and then this is half the work of an empty page."""
    ask = msgspec.json.encode({"seq": after + 1, "next_by_subj": subject})
    said = (await answer(nc, f"$JS.API.DIRECT.GET.{stream}", ask)).headers or {}
    if said.get("Status", NOTHING) != NOTHING:
        raise Passing(f"direct get answered {said['Status']} {said.get('Description', '')}")
    return "Status" not in said


async def _page(nc: Client, stream: str, ask: bytes, found: list[Stored]) -> bool:
    """Add the messages of one page to `found` as they come; whether there are more."""
    done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def on(message: Msg) -> None:
        headers = message.headers or {}
        if "Status" not in headers:
            found.append(
                Stored(int(headers["Nats-Sequence"]), headers.get(MESSAGE_ID, ""), message.data)
            )
        elif not done.done():
            _finish(done, headers)

    inbox = nc.new_inbox()
    subscription = await nc.subscribe(inbox, cb=on)
    try:
        await nc.publish(f"$JS.API.DIRECT.GET.{stream}", ask, reply=inbox)
        async with asyncio.timeout(ATTEMPT_S_MAX):
            return await done
    finally:
        if not nc.is_closed:
            await subscription.unsubscribe()


def _finish(done: asyncio.Future[bool], headers: dict[str, str]) -> None:
    status = headers["Status"]
    if status in (END_OF_PAGE, NOTHING):
        done.set_result(int(headers.get("Nats-Num-Pending") or 0) > 0)
    else:
        done.set_exception(
            Passing(f"direct get answered {status} {headers.get('Description', '')}")
        )
