"""What authors attach: read within limits, and never where it should not lie."""

import io
import json
import zipfile
from datetime import UTC, datetime
from typing import Any

import pytest

from discord_edge.domain import uploads
from discord_edge.domain.publishing import ends_at
from discord_edge.domain.uploads import check_upload, problem_files, report_of
from discord_edge.settings import load
from shared.errors import Refused
from shared.testing import clean_report

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


def test_a_folder_is_taken_with_or_without_its_own_name() -> None:
    inner = {"task.yml": b"1", "data/cases.txt": b"2"}
    beside = {"solutions/correct/a.py": b"3", "__MACOSX/x": b"4", ".git/config": b"5"}
    assert problem_files("p.zip", zipped(**inner, **beside)) == inner
    wrapped = {f"copy/{name}": data for name, data in (inner | beside).items()}
    assert problem_files("p.zip", zipped(**wrapped)) == inner


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"no zip at all", "cannot be read"),
        (zipped(), "0 files"),
        (zipped(**{"../../etc/passwd": b"x"}), "leads out of it"),
        (zipped(**{"/etc/passwd": b"x"}), "leads out of it"),
        (zipped(**{f"{n}.txt": b"" for n in range(uploads.FILES_MAX + 1)}), "257 files"),
        (zipped(bomb=bytes(uploads.FILES_BYTES_MAX + 1)), "together"),
    ],
)
def test_a_bad_zip_is_refused_in_words(data: bytes, said: str) -> None:
    with pytest.raises(Refused, match=said):
        problem_files("p.zip", data)


def test_what_is_no_problem_is_refused_before_it_is_read() -> None:
    for name, size in (("a.txt", 1), ("a.py", 0), ("a.zip", uploads.UPLOAD_BYTES_MAX + 1)):
        with pytest.raises(Refused):
            check_upload(name, size)


def test_a_report_is_found_in_what_the_check_says() -> None:
    text = clean_report("copy", {"copy.py": SINGLE})
    alone = json.loads(text)
    other: dict[str, Any] = alone | {"slug": "other", "digest": "0" * 64}
    whole = {"problems": [other, alone | {"slug": "copy", "path": "x", "took_s": 1.0}]}
    for said in (alone, whole):
        assert report_of(json.dumps(said).encode(), "copy").digest == alone["digest"]
    for said, why in ((whole, "of other, copy, not of third"), ({"problems": []}, "nothing")):
        with pytest.raises(Refused, match=why):
            report_of(json.dumps(said).encode(), "third")
    for data in (b"{", b"[]", b"7", b'{"problems": 7}', b"\xff"):
        with pytest.raises(Refused, match="report"):
            report_of(data, "copy")


@pytest.mark.parametrize("text", ["tomorrow", "2026-11-20", "", "2026-13-01"])
def test_a_deadline_lies_ahead(text: str) -> None:
    with pytest.raises(Refused):
        ends_at(text, NOW)
    assert ends_at("none", NOW) is None


def test_a_setting_that_is_none_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert load().staff == {7: "admin", 8: "creator", 9: "admin"}
    for text in ("owner=7", "admin", "admin=me"):
        monkeypatch.setenv("WARPBOARD_DISCORD_EDGE_ROLES", text)
        with pytest.raises(Refused, match="ROLES names"):
            load()
    monkeypatch.setenv("WARPBOARD_DISCORD_EDGE_ROLES", "")
    monkeypatch.setenv("WARPBOARD_DISCORD_EDGE_THREADS", "person")
    with pytest.raises(Refused, match="THREADS is 'person': expected submission or problem"):
        load()
