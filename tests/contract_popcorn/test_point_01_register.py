"""An id that `register` stores: nobody's until it is linked, somebody's afterwards."""

import re
from typing import Any

import httpx
import pytest

from tests.contract_popcorn.polling import HONEST, refusal, submit, wait_until_done
from tests.contract_popcorn.wire import Wire, cli_id
from tests.support.platform import Running

pytestmark = [pytest.mark.server, pytest.mark.long]


def linked(platform: Running, state: str, *, confirm: bool) -> Any:
    """What linking an id answers, to a participant who is logged in."""
    answer = httpx.post(
        f"{platform.url}/v1/auth/link",
        json={"cli_id": state, "confirm": confirm},
        headers={"Warpboard-Participant": "newcomer"},
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("provider", ["discord", "github"])
def test_point_01_an_id_works_once_it_is_linked(
    platform: Running, nobody: Wire, provider: str
) -> None:
    answer = Wire(f"{nobody.base}/").get(f"/auth/init?provider={provider}")
    assert answer.status == 200
    state = answer.json()["state"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{16,128}", state)
    newcomer = Wire(nobody.base, cli_id(state))
    refused = newcomer.post_file("/submission/identity/CPU/test", HONEST)
    assert "link" in refusal(refused, 401, "cli_id_not_linked")
    refusal(newcomer.get("/user/submissions"), 401, "cli_id_not_linked")
    assert newcomer.get("/gpus/identity").status == 200, "the picker works before linking"
    assert "requested_at" in linked(platform, state, confirm=False)
    refusal(newcomer.get("/user/submissions"), 401, "cli_id_not_linked")
    link = linked(platform, state, confirm=True)
    assert (link["status"], link["participant"]) == ("ok", "newcomer")
    number = submit(newcomer)
    submission = wait_until_done(newcomer, number)
    assert (submission["job"]["status"], submission["user_id"]) == (
        "succeeded",
        link["participant_id"],
    )


@pytest.mark.parametrize("query", ["", "?provider=myspace"])
def test_point_01_another_provider_is_refused(nobody: Wire, query: str) -> None:
    assert nobody.get(f"/auth/init{query}").status == 400
