"""No answer to a request that changes something, or is refused, tells a secret of a contest."""

import random
from itertools import pairwise

import pytest

from tests.access.embargoed_contest import (
    REGISTERED,
    SECOND,
    STAFF,
    STAGES,
    EmbargoedContest,
    Stage,
    open_embargoed_contest,
)
from tests.access.judging import Judge
from tests.access.writes import Write, check_complete, list_writes, may_send
from tests.support.chance import seeds

pytestmark = [pytest.mark.server, pytest.mark.long]

# When most is hidden: before the phases that begin at these hours, and while a freeze goes on.
HOURS = (3, 5, 9)
TAKEN = {
    "POST /v1/submissions": 202,
    "POST /v1/evaluations": 202,
    "POST /v1/archive/search": 200,
    "PUT /v1/submissions/{number}/note": 200,
}
# After a form, the page shows the standing again.
CONTEST_PAGE = "POST /contests/{slug}"


class Sending:
    """Sends requests as callers who are neither operators nor organisers, who may read all."""

    def __init__(self, contest: EmbargoedContest, chance: random.Random) -> None:
        self.contest, self.chance, self.judge = contest, chance, Judge()
        known = (*STAFF, "olga", *REGISTERED)
        self.others = [name for name in contest.ways.people if name not in known]
        self.answered: dict[str, set[int]] = {}

    async def send(self, write: Write, name: str, stage: Stage) -> None:
        """Send a request as a caller, and search the answer."""
        ways, body = self.contest.ways, dict(write.body)
        cookies, token = ways.browser_credentials(name)
        if write.is_page:
            body["data"] = {"csrf": token, **body["data"]}
        headers = {**cookies, **ways.people[name].headers}
        async with ways.browser(name, headers) as http:
            answer = await http.request(write.method, write.path, **body)
        assert answer.status_code < 500, (write, name, answer.text)
        self.answered.setdefault(write.route, set()).add(answer.status_code)
        surface = f"{write.method} {write.path}"
        found, is_standing = self.judge.find_in_answer(answer), write.route == CONTEST_PAGE
        self.judge.judge(found, surface, name, stage, is_standing=is_standing)

    async def send_all(self, stage: Stage) -> None:
        """Send every request as some callers, in a random order."""
        writes = list(list_writes(self.contest))
        self.chance.shuffle(writes)
        for write in writes:
            for names in (REGISTERED, self.others):
                if senders := [name for name in names if may_send(name, write.route)]:
                    await self.send(write, self.chance.choice(senders), stage)
        self.judge.check()


@pytest.mark.feature("N14")
@pytest.mark.timeout(300)
@seeds(2)
async def test_no_answer_to_a_write_tells_a_secret(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    async with open_embargoed_contest(postgres_dsn, monkeypatch, is_connected=True) as contest:
        check_complete(contest)
        sending = Sending(contest, random.Random(seed))
        for stage, following in pairwise(STAGES):
            await contest.receive(stage.hour, following.hour)
            if following.hour in HOURS:
                contest.set_hour(following.hour, -SECOND)
                await sending.send_all(stage)
        # The test can fail: requests were taken, and a page told what it may.
        for route, status in TAKEN.items():
            assert status in sending.answered[route], route
        assert sending.judge.told
