"""What authors attach: read within limits, and never where it should not lie."""

import io
import json
import zipfile
from datetime import UTC, datetime
from typing import Any

import pytest

from discord_edge.problems import drafts
from discord_edge.problems.drafts import (
    check_upload,
    parse_check_report,
    parse_closing_time,
    problem_files,
)
from discord_edge.settings import load
from shared.errors import Refused
from tests.support.examples import clean_report

NOW = datetime(2026, 11, 21, tzinfo=UTC)
SINGLE = (
    b"#!POPCORN gpus CPU\nimport torch\n\nclass Model(torch.nn.Module):\n"
    b"    def forward(self, x):\n        return x\n\n"
    b"def get_inputs():\n    return [torch.rand(4)]\n\n"
    b"def get_init_inputs():\n    return []\n"
)


def zipped(**files: bytes) -> bytes:
    """A zip of files, whose names may hold anything."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in files.items():
            opened.writestr(name, data)
    return held.getvalue()


def test_a_zip_may_have_a_top_folder() -> None:
    inner = {"task.yml": b"1", "data/cases.txt": b"2"}
    beside = {"solutions/correct/a.py": b"3", "__MACOSX/x": b"4", ".git/config": b"5"}
    assert problem_files("p.zip", zipped(**inner, **beside)) == inner
    wrapped = {f"copy/{name}": data for name, data in (inner | beside).items()}
    assert problem_files("p.zip", zipped(**wrapped)) == inner


@pytest.mark.parametrize("top", ["", "copy/"])
def test_a_zip_keeps_the_solution_that_is_the_yardstick(top: str) -> None:
    inner = {"warpboard.yml": b"yardstick: solutions/correct/a.py", "solutions/correct/a.py": b"1"}
    beside = {"solutions/correct/b.py": b"2", "solutions/wrong/a.py": b"3"}
    entries = {f"{top}{name}": data for name, data in (inner | beside).items()}
    assert problem_files("p.zip", zipped(**entries)) == inner


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"no zip at all", "cannot be read"),
        (zipped(), "0 problem files"),
        (zipped(**{"../../etc/passwd": b"x"}), "unsafe path"),
        (zipped(**{"/etc/passwd": b"x"}), "unsafe path"),
        (zipped(**{f"{n}.txt": b"" for n in range(drafts.FILES_MAX + 1)}), "257 problem files"),
        (zipped(bomb=bytes(drafts.FILES_BYTES_MAX + 1)), "together"),
    ],
)
def test_a_bad_zip_is_refused_with_a_reason(data: bytes, said: str) -> None:
    with pytest.raises(Refused, match=said):
        problem_files("p.zip", data)


def test_other_files_are_refused_before_the_download() -> None:
    for name, size in (("a.txt", 1), ("a.py", 0), ("a.zip", drafts.UPLOAD_BYTES_MAX + 1)):
        with pytest.raises(Refused):
            check_upload(name, size)
    with pytest.raises(Refused, match=r"attach one reference \(\.py, \.cu, \.cuh, \.cpp\)"):
        check_upload("a.c", 1)
    for name in ("a.py", "a.cu", "a.cuh", "a.cpp"):
        check_upload(name, 1)
        assert problem_files(name, b"x") == {name: b"x"}


def test_a_report_is_read_from_the_output_of_the_check() -> None:
    text = clean_report("copy", {"copy.py": SINGLE})
    alone = json.loads(text)
    other: dict[str, Any] = alone | {"slug": "other", "digest": "0" * 64}
    edge_platform = {"problems": [other, alone | {"slug": "copy", "path": "x", "took_s": 1.0}]}
    for said in (alone, edge_platform):
        assert parse_check_report(json.dumps(said).encode(), "copy").digest == alone["digest"]
    for said, why in (
        (edge_platform, "about other, copy, not about third"),
        ({"problems": []}, "no problem"),
    ):
        with pytest.raises(Refused, match=why):
            parse_check_report(json.dumps(said).encode(), "third")
    for data in (b"{", b"[]", b"7", b'{"problems": 7}', b"\xff"):
        with pytest.raises(Refused, match="report"):
            parse_check_report(data, "copy")


@pytest.mark.parametrize("text", ["tomorrow", "2026-11-20", "", "2026-13-01"])
def test_a_deadline_must_be_in_the_future(text: str) -> None:
    with pytest.raises(Refused):
        parse_closing_time(text, NOW)
    assert parse_closing_time("none", NOW) is None


def test_an_invalid_setting_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "INGEST_URL": "http://x",
        "POSTGRES_DSN": "x",
        "OPS_LISTEN": "127.0.0.1:0",
        "GUILD": "1",
        "TOKEN": "t",
        "EDGE_TOKEN": "t",
        "ROLES": "admin=7, creator=8,admin=9",
    }
    for name, text in given.items():
        monkeypatch.setenv(f"WARPBOARD_DISCORD_EDGE_{name}", text)
    assert load().role_names == {"7": "admin", "8": "creator", "9": "admin"}
    monkeypatch.delenv("WARPBOARD_DISCORD_EDGE_ROLES")
    by_name = {"Leaderboard Creator": "creator", "Leaderboard Admin": "admin"}
    assert load().role_names == by_name
    for text in ("owner=7", "admin", "admin="):
        monkeypatch.setenv("WARPBOARD_DISCORD_EDGE_ROLES", text)
        with pytest.raises(Refused, match="ROLES names"):
            load()
    monkeypatch.setenv("WARPBOARD_DISCORD_EDGE_ROLES", "")
    monkeypatch.setenv("WARPBOARD_DISCORD_EDGE_THREADS", "person")
    with pytest.raises(Refused, match="THREADS is 'person': expected submission or problem"):
        load()
    monkeypatch.setenv("WARPBOARD_DISCORD_EDGE_LOBBY", "#lobby")
    with pytest.raises(Refused, match="LOBBY is '#lobby': expected the id of a channel"):
        load()
