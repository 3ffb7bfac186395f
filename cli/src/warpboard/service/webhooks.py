"""Webhooks: addresses of one's own that the platform tells of events."""

from warpboard.domain import webhooks
from warpboard.domain.answers import Answer, read
from warpboard.domain.outcome import OK
from warpboard.domain.units import one_line
from warpboard.domain.webhooks import Deliveries, Made, Sent, Webhook, Webhooks
from warpboard.service.ports import Api, Screen
from warpboard.service.reading import show

ROUTE = "webhooks"


async def add(api: Api, screen: Screen, said: Answer, *, as_json: bool) -> int:
    """Have an address told from now on; its secret is shown this once."""
    answer = await api.act("POST", ROUTE, said=said)
    made = read(answer, Made)
    if as_json:
        screen.json(answer)
        return OK
    screen.say(one_line(made.secret, 300))
    screen.note(f"webhook {made.id}: its secret is shown this once, so keep it now")
    return OK


async def listed(api: Api, screen: Screen, *, as_json: bool) -> int:
    """One's webhooks."""
    answer = await api.get(ROUTE)
    found = read(answer, Webhooks).items
    return show(screen, answer, webhooks.webhooks(found), as_json=as_json)


async def one(api: Api, screen: Screen, id_: str, *, as_json: bool) -> int:
    """One of one's webhooks. Errors: Refused if there is none such."""
    answer = await api.get(ROUTE, id_)
    found = read(answer, Webhook)
    if as_json:
        screen.json(answer)
    for line in () if as_json else webhooks.about(found):
        screen.say(line)
    return OK


async def test(api: Api, screen: Screen, id_: str, *, as_json: bool) -> int:
    """Have a test sent to it. Errors: Refused."""
    answer = await api.act("POST", ROUTE, id_, "test", said={})
    sent = read(answer, Sent)
    if as_json:
        screen.json(answer)
    else:
        screen.say(f"a test is on its way: event {sent.event_id}")
        screen.note(f"warpboard webhook deliveries {sent.id} shows what became of it")
    return OK


async def deliveries(
    api: Api, screen: Screen, id_: str, cursor: str | None, *, as_json: bool
) -> int:
    """What it was told, newest first. Errors: Refused."""
    query = {} if cursor is None else {"cursor": cursor}
    answer = await api.get(ROUTE, id_, "deliveries", **query)
    found = read(answer, Deliveries)
    code = show(screen, answer, webhooks.deliveries(found.items), as_json=as_json)
    if found.next_cursor and not as_json:
        screen.note(f"what was before: --cursor {found.next_cursor}")
    return code
