"""Credentials of the bus never appear in an error or in the text of an object."""

import pytest

from gpu_agent.settings import Settings
from shared.bus_keys.claims import ACCOUNT, USER, Credentials, make_key, sign_claims
from shared.bus_keys.login import BusLogin
from shared.errors import Failed
from shared.settings import read_settings

KEY = make_key(USER)
CREDENTIALS = Credentials(sign_claims("user", "agent-a1", KEY.public, make_key(ACCOUNT), {}), KEY)
TEXT = CREDENTIALS.render()


@pytest.mark.parametrize(
    "text",
    [KEY.seed, f"\n{KEY.seed}\n", TEXT.replace(KEY.seed, f"x {KEY.seed}"), TEXT[1:-60]],
    # Seeds are drawn anew, and the names of tests may not be.
    ids=["seed", "seed in lines", "seed in a line", "cut"],
)
def test_an_error_does_not_show_what_was_given_instead_of_a_path(text: str) -> None:
    with pytest.raises(Failed, match="bus credentials given: ") as failed:
        BusLogin("nats://h", text).read_credentials()
    assert KEY.seed[:20] not in str(failed.value)


@pytest.mark.parametrize("before", ["", "\n", "  ", "\ufeff"])
def test_credentials_given_as_text_may_have_space_around(before: str) -> None:
    assert BusLogin("nats://h", f"{before}{TEXT}\n\n").read_credentials() == CREDENTIALS


def test_no_object_shows_the_seed_that_it_has() -> None:
    settings = read_settings(
        Settings,
        "A",
        {
            "A_ID": "a1",
            "A_DATA": "/tmp/a",
            "A_NATS_URL": "nats://127.0.0.1:4222",
            "A_OPS_LISTEN": "127.0.0.1:0",
            "A_NATS_CREDENTIALS": TEXT,
            "A_SIGN_SEED": KEY.seed,
        },
    )
    shown = repr((KEY, CREDENTIALS, settings.bus_login, settings))
    assert KEY.public in shown
    assert KEY.seed not in shown
