"""All messages of a subject or filter, fetched page by page with batched direct gets."""

import asyncio

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared.nats.requests import (
    ATTEMPT_S_MAX,
    MESSAGE_ID,
    SUBJECT,
    Passing,
    Stored,
    answer,
    patiently,
)

PAGE = 256
END_OF_PAGE, NOTHING = "204", "404"


async def pages(nc: Client, stream: str, subject: str, after: int = 0) -> list[Stored]:
    """The messages of a subject, or of a filter with wildcards, after a sequence, in order.

    On a cluster the tail may be missing for a moment: any replica answers.

    Errors: Failed if the server could not be reached in 30 s, for any one page.
    """
    first = await patiently(nc, lambda: _next(nc, stream, subject, after))
    if first is None:
        return []
    found = [first]

    async def one() -> bool:
        ask = {"seq": found[-1].seq + 1, "batch": PAGE, "next_by_subj": subject}
        return await read_page(nc, stream, msgspec.json.encode(ask), found)

    while await patiently(nc, one):
        continue
    return found


async def _next(nc: Client, stream: str, subject: str, after: int) -> Stored | None:
    """What a subject says next: mostly nothing, and then this is half the work of a page."""
    ask = msgspec.json.encode({"seq": after + 1, "next_by_subj": subject})
    said = await answer(nc, f"$JS.API.DIRECT.GET.{stream}", ask)
    headers = said.headers or {}
    if "Status" not in headers:
        return _stored(headers, said.data)
    if headers["Status"] != NOTHING:
        raise Passing(f"direct get answered {headers['Status']} {headers.get('Description', '')}")
    return None


def _stored(headers: dict[str, str], data: bytes) -> Stored:
    id_, seq = headers.get(MESSAGE_ID, ""), int(headers["Nats-Sequence"])
    return Stored(seq, id_, data, subject=headers[SUBJECT])


async def read_page(nc: Client, stream: str, ask: bytes, found: list[Stored]) -> bool:
    """Add the messages of one page to `found` as they come; whether there are more."""
    done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def on(message: Msg) -> None:
        headers = message.headers or {}
        if "Status" not in headers:
            found.append(_stored(headers, message.data))
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
