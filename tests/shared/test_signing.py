"""A signature is valid for one verdict of one run, and only its owner can read the key."""

import base64
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import Refused
from shared.signing import load_key, make_key, public_key, sign_verdict
from shared.verdicts import verify_verdict

DATA = b'{"verdict":"passed"}'


def test_what_was_signed_is_verified(tmp_path: Path) -> None:
    key = load_key(tmp_path / "sign_key")
    sig = sign_verdict(key, "run.a1.r1", 7, DATA)
    assert verify_verdict(public_key(key), "run.a1.r1", 7, DATA, sig)


@pytest.mark.parametrize(
    ("aggregate", "token", "data"),
    [
        ("run.a1.r2", 7, DATA),
        ("run.a1.r1", 8, DATA),
        ("run.a1.r1", 7, DATA.replace(b"passed", b"failed")),
        ("run.a1.r1\x007", 7, DATA),
    ],
)
def test_a_signature_holds_for_nothing_else(
    tmp_path: Path, aggregate: str, token: int, data: bytes
) -> None:
    key = load_key(tmp_path / "sign_key")
    assert not verify_verdict(
        public_key(key), aggregate, token, data, sign_verdict(key, "run.a1.r1", 7, DATA)
    )


def test_the_signature_of_another_key_is_none(tmp_path: Path) -> None:
    mine, other = load_key(tmp_path / "mine"), load_key(tmp_path / "other")
    assert not verify_verdict(
        public_key(mine), "run.a1.r1", 7, DATA, sign_verdict(other, "run.a1.r1", 7, DATA)
    )


@given(key=st.text(max_size=60), sig=st.text(max_size=120))
def test_what_is_no_key_or_signature_verifies_nothing(key: str, sig: str) -> None:
    assert not verify_verdict(key, "run.a1.r1", 7, DATA, sig)


def test_a_key_stays_the_same_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "sign_key"
    assert bytes(load_key(path)) == bytes(load_key(path)) == bytes(make_key(path))
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["sign_key"]


def test_two_first_starts_at_once_agree_on_one_key(tmp_path: Path) -> None:
    path, keys, gate = tmp_path / "sign_key", set[str](), threading.Barrier(8)

    def start() -> None:
        gate.wait(5)
        keys.add(public_key(load_key(path)))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert len(keys) == 1


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sign_key"
    load_key(path)
    path.chmod(0o640)
    with pytest.raises(Refused, match="chmod 600"):
        load_key(path)


@pytest.mark.parametrize("text", [b"", b"not base64!", base64.b64encode(b"short")])
def test_a_file_that_holds_no_key_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "sign_key"
    path.touch(mode=0o600)
    path.write_bytes(text)
    with pytest.raises(Refused, match="is not a key"):
        load_key(path)
