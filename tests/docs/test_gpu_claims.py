"""What README and the pages say about GPUs comes from the table of claims, and changes with it."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench.gpu import claims, first_hour, grading
from bench.gpu.claims import FAILED, PASSED, SHORT, Result

from tests.cheats.corpus import named

CARD, DAY = "NVIDIA H100 80GB HBM3", "2026-12-01"
# What nobody should write by hand: it becomes untrue when an experiment passes.
GPU = r"\b(GPUs?|H\d00|hip|Xid)\b"
DEPENDS_ON_A_GPU = re.compile(
    rf"\bno (GPU|machine with \w+ GPUs?|duel|floor|submission|example)\b.*\b(has|have)\b"
    rf"|\b(never|not|none|neither|only)\b.*\b(run|ran|passed|tested|tried|timed|proven|shown)\b"
    rf".{{0,20}}\bon (a |any |an |one )?(GPUs?|H\d00)\b"
    rf"|\bnot (shown that|proven)\b.*{GPU}|\bnot on a GPU\b|\bOn a GPU\b.*\bnot run\b"
    rf"|\bhave (ended|passed)\b.*\bon a GPU\b"
    rf"|{GPU}.*\b(is|are|stay|keeps?) provisional\b"
    rf"|\b(one|a|an) (GPU|H\d00)\b.*\bhas run\b|\bhas run on (one|a|an) {GPU}",
    re.IGNORECASE,
)


def document(*rows: tuple[str, str, bool], is_imitation: bool = False) -> dict[str, object]:
    """Return what a call of the first hour leaves, with these rows: name, passed, is short."""
    made = [
        {"name": name, "what": "", "expected": "", "measured": "", "passed": passed}
        | {"took_s": 1.0, "data": {}, "is_short": is_short}
        for name, passed, is_short in rows
    ]
    return {
        "gpu": {"name": CARD},
        "date": DAY,
        "is_imitation": is_imitation,
        "rows": {"clocks": made},
    }


def sentences(text: str) -> list[str]:
    """Return the sentences of a page that are written by hand, code left out."""
    text = re.sub(r"```.*?```", "", claims.PART.sub("", text), flags=re.DOTALL)
    paragraphs = re.split(r"\n\s*\n|\n(?= *[-*|#] )|\n(?=\|)", text)
    return [
        sentence
        for paragraph in paragraphs
        for sentence in re.split(r"(?<=[.!?])\s+|(?<=\*\*)\s+", " ".join(paragraph.split()))
    ]


def test_sentences_about_what_no_gpu_has_shown_are_generated() -> None:
    found = [
        f"{page.relative_to(claims.ROOT)}: {sentence}"
        for page in claims.text_pages()
        for sentence in sentences(page.read_text(encoding="utf-8"))
        if DEPENDS_ON_A_GPU.search(sentence)
    ]
    assert not found, "move these to bench/gpu/claims.toml, and put a marker in their place"


@pytest.mark.parametrize("name", first_hour.load_claims().claims)
def test_a_sentence_written_by_hand_would_be_found(name: str) -> None:
    """The claim's own words are, so nobody can copy them to a page without a marker."""
    loaded = first_hour.load_claims()
    said = replace(loaded, results={}).sentence(name)
    assert any(DEPENDS_ON_A_GPU.search(sentence) for sentence in sentences(f"Text. {said}")), said


def test_the_pages_say_what_the_table_says() -> None:
    right = claims.pages(first_hour.load_claims())
    stale = [page.name for page, text in right.items() if page.read_text() != text]
    assert not stale, "run `make docs`"
    assert claims.ROOT / "README.md" in right
    shown = " ".join(match["names"] for text in right.values() for match in parts(text)).split()
    assert set(shown) >= set(first_hour.load_claims().claims) - {"catalogue"}


def parts(text: str) -> list[re.Match[str]]:
    return list(claims.PART.finditer(text))


def test_the_results_are_those_that_a_gpu_left() -> None:
    """Whoever records the committed files again gets the same table."""
    folder = first_hour.ROOT / "bench/gpu/results"
    hour = json.loads((folder / "h100-first-hour.json").read_text())
    later = grading.rows_of_cheats(json.loads((folder / "h100-cheats.json").read_text()))
    results = claims.merge({}, hour)
    rows = [(row.name, row.passed, row.is_short) for row in later]
    assert document(*rows)["gpu"] == {"name": hour["gpu"]["name"]}
    results = claims.merge(results, document(*rows) | {"date": hour["date"]})
    assert first_hour.load_claims().results == results


def test_a_sentence_changes_when_its_last_experiment_passes() -> None:
    table = claims.Claim("times", ["E3", "all"], "Open: {open}.", "Passed ({cards}).")
    known = claims.Claims({"times": table}, {}, {"all": ["E8", "E12"]})
    assert known.sentence("times") == "Open: `E3`, `E8` and `E12` have not run."
    calls = [
        ((("E3", "yes", False), ("E8", "NO", False), ("E12", "yes", True)),
         "Open: `E8` has not passed; `E12` has passed in its short form only."),
        ((("E8", "yes", False), ("E12", "-", False)),
         "Open: `E12` has passed in its short form only."),
        ((("E3", "yes", True), ("E12", "yes", False)), f"Passed ({CARD})."),
        ((("E3", "NO", True),), "Open: `E3` has not passed."),
    ]  # fmt: skip
    for rows, said in calls:
        known = replace(known, results=claims.merge(known.results, document(*rows)))
        assert known.sentence("times") == said


def test_recording_a_passed_row_changes_the_sentence_of_a_page(tmp_path: Path) -> None:
    """In a copy of the repository that has README and the benchmarks as its only pages."""
    shutil.copy(claims.ROOT / "README.md", tmp_path)
    shutil.copytree(
        claims.ROOT / "bench", tmp_path / "bench", ignore=shutil.ignore_patterns("results", "work")
    )
    for name in ("tests", "problems"):
        (tmp_path / name).symlink_to(claims.ROOT / name)
    open_sentence = "**No machine with two GPUs has run a submission with several ranks**"
    passed = f"A submission with several ranks has run on a machine with two GPUs ({CARD})."
    readme = tmp_path / "README.md"

    def record(*rows: tuple[str, str, bool], is_imitation: bool = False) -> str:
        file = tmp_path / "first-hour.json"
        file.write_text(json.dumps(document(*rows, is_imitation=is_imitation)))
        command = [sys.executable, "-m", "bench.gpu.first_hour", "--record", str(file)]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == (2 if is_imitation else 0), done.stderr
        return done.stdout

    ranks = [("R1", "yes", False), ("R2", "yes", False), ("R3", "yes", False)]
    record(*ranks, is_imitation=True)
    assert f"ranks: {passed}" not in record(*ranks[:2])
    assert open_sentence in words_of(readme)
    assert f"ranks: {passed}" in record(*ranks)
    assert passed in words_of(readme)
    assert open_sentence not in words_of(readme)


def words_of(page: Path) -> str:
    """Return the text of a page, with its lines joined."""
    return " ".join(page.read_text(encoding="utf-8").split())


def test_an_imitation_shows_nothing() -> None:
    with pytest.raises(ValueError, match="imitation"):
        claims.merge({}, document(("E3", "yes", False), is_imitation=True))


def test_recorded_results_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    shutil.copy(claims.FILE, path)
    results = {"test: POST to end": Result(SHORT, DAY, CARD), "V1": Result(FAILED, DAY, CARD)}
    claims.write_results(results, path)
    again = claims.load({}, path)
    assert again.results == results
    assert again.claims == first_hour.load_claims().claims


def test_a_page_gets_folded_sentences_and_links_of_its_own() -> None:
    claim = claims.Claim("it", ["E3"], f"{'word ' * 30}[shown](docs/timing.md).", "")
    known = claims.Claims({"it": claim}, {}, {})
    begin, end = "<!-- claim it, generated by `make docs` -->", "<!-- end of claim -->"
    page = claims.ROOT / "docs/adr/timing.md"
    filled = claims.fill(f"- {begin}\n  old\n  {end}\n\nrest", page, known)
    lines = filled.splitlines()
    assert (lines[0], lines[-3:]) == (f"- {begin}", [f"  {end}", "", "rest"])
    assert all(line.startswith("  word") for line in lines[1:-4])
    assert "](../timing.md)" in filled
    assert claims.fill(filled, page, known) == filled


def test_the_plan_names_the_step_or_the_check_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    assert first_hour.main(["--plan"]) == 0
    plan = capsys.readouterr().out
    loaded = first_hour.load_claims()
    for claim in loaded.open_claims():
        assert f"{claim.name}: {loaded.sentence(claim.name)}" in plan
    assert f"  E8: failed on 2026-11-28 ({CARD}); step clocks\n" in plan
    assert "  R2: not run; python -m bench.gpu.validate --only R1 R2 R3" in plan
    assert not [line for line in plan.splitlines() if line.endswith("; ")], "nothing can show it"
    assert PASSED not in {loaded.state(name) for name in re.findall(r"(?m)^  (\S+):", plan)}


def test_the_exploits_told_in_public_have_the_verdicts_of_their_table() -> None:
    page = (claims.ROOT / "bench/gpu/README.md").read_text(encoding="utf-8")
    table = page.partition("| family | files | verdict |\n")[2].partition("\n\n")[0]
    for line in table.splitlines()[1:]:
        _, family, files, verdict, _ = line.split("|")
        for name in re.findall(r"`(gpu_\w+)`(?!\)| is allowed)", files):
            cheat = named(name)
            assert cheat.header["gpu"] == "yes", family
            assert set(re.findall(r"`(\w+)`", verdict)) & set(cheat.verdicts), name
