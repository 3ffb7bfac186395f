"""Names as the platform takes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import Refused
from shared.problem_versions import slug_of
from warpboard.domain.names import PARTICIPANT, legal_participant, participant


@pytest.mark.parametrize("name", ["Ada", "", "a" * 33, "_ada", "ada lovelace", "ada\n", "größe"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(Refused, match="is not a name"):
        participant(name)


def test_a_good_name_is_kept() -> None:
    assert participant("ada-1_b") == "ada-1_b"


@given(st.text())
def test_every_account_has_a_legal_participant(name: str) -> None:
    assert PARTICIPANT.match(legal_participant(name))


def test_a_folder_suggests_its_slug() -> None:
    assert slug_of("Vector Add") == "vector-add"
