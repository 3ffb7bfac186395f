"""What may come in."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from ingest.problems import commands
from ingest.problems import rules as problems
from ingest.submissions import rules as domain
from ingest.submissions.resolution import check_mode
from shared.errors import Refused
from shared.events import Blob, LauncherRegistered, ProblemPublished
from shared.problems.submission_file import Directives, read_directives
from shared.source_files import SourceFile

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def version(
    digest: str = "d1", number: int = 0, languages: tuple[str, ...] = ()
) -> ProblemPublished:
    return ProblemPublished(
        number=number,
        digest=digest,
        title="Identity",
        manifest=Blob(digest=digest, bytes=1),
        files={},
        gpus=["CPU", "H100"],
        cases_count={"tests": 1, "benchmarks": 1},
        ranking_by="last",
        budgets_s={"build": 60, "test": 10, "benchmark": 20, "ranked": 30},
        source_bytes_max=100,
        languages=list(languages),
        tested_gpus=["H100"],
        lang="py",
    )


def file_text(name: str, source: bytes, published: ProblemPublished) -> str:
    return domain.file_texts([SourceFile(name, source)], published)[name]


def refusal(name: str, source: bytes) -> str:
    with pytest.raises(Refused) as refused:
        file_text(name, source, version())
    return refused.value.code


@pytest.mark.parametrize(
    ("name", "source", "code"),
    [
        ("k.py", b"", "empty_file"),
        ("k.py", b" \n\t\n", "empty_file"),
        ("k.py", b"\xff\xfe", "not_utf8"),
        ("k.py", b"x = 1\0", "not_utf8"),
        ("k.py", b"#" * 101, "file_too_large"),
        ("k.txt", b"x = 1", "bad_extension"),
        ("k.cu", b"int x;", "bad_extension"),
        ("k.zip", b"PK", "archive_not_supported"),
        ("k.tar.gz", b"x", "archive_not_supported"),
    ],
)
def test_a_bad_file_is_refused_with_its_reason(name: str, source: bytes, code: str) -> None:
    assert refusal(name, source) == code


def test_a_single_case_must_be_timed_and_profiled() -> None:
    several = structs.replace(version(), ranking_by="mean", cases_count={"benchmarks": 3})
    domain.check_case(3, "profile", several)
    domain.check_case(0, "ranked", several)
    for case, mode, published, expected in (
        (4, "profile", several, "case 4 is none of 1 to 3"),
        (2, "profile", version(), "case 2 is none of 1 to 1"),
        (1, "ranked", several, "for mode profile, not for ranked"),
    ):
        with pytest.raises(Refused, match=expected):
            domain.check_case(case, mode, published)


def test_the_text_of_a_valid_file_is_returned() -> None:
    assert file_text("k.py", b"x = '\xc3\xa9'", version()) == "x = 'é'"


@pytest.mark.feature("P10")
@pytest.mark.parametrize(
    ("name", "language"), [("k.cpp", "cpp"), ("k.cu", "cuda"), ("k.hip", "hip")]
)
def test_a_problem_accepts_its_languages(name: str, language: str) -> None:
    assert file_text(name, b"int x;", version(languages=("python", language))) == "int x;"
    with pytest.raises(Refused, match="which this problem takes"):
        file_text(name, b"int x;", version(languages=("python",)))


@pytest.mark.parametrize(
    ("lang", "gpu", "toolchains"),
    [
        ("py", "H100", ["nvcc", "cublas"]),
        ("cu", "CPU", ["g++", "cublas"]),
        ("cu", "H100", ["nvcc", "cublas"]),
    ],
)
def test_a_file_needs_the_compiler_that_builds_it_on_a_gpu_type(
    lang: str, gpu: str, toolchains: list[str]
) -> None:
    published = structs.replace(version(), lang=lang)
    requires = domain.required({"k.cu": "#include <cublas_v2.h>"}, published, gpu)
    assert requires.toolchains == toolchains


@pytest.mark.parametrize("name", ["k.cu", "k.hip"])
def test_a_language_of_gpus_is_refused_on_the_processor(name: str) -> None:
    with pytest.raises(Refused, match="needs a GPU: choose another GPU type than CPU") as refused:
        domain.required({name: "int x;"}, structs.replace(version(), lang="py"), "CPU")
    assert (refused.value.code, refused.value.field) == ("toolchain_missing", "file")


def test_a_first_version_has_number_one() -> None:
    (fact,) = problems.PROBLEM_DECIDER.decide(commands.Publish(version()), problems.Problem())
    assert isinstance(fact, ProblemPublished)
    assert fact.number == 1


def test_equal_files_create_no_version() -> None:
    state = problems.PROBLEM_DECIDER.fold([version(number=3)])
    assert problems.PROBLEM_DECIDER.decide(commands.Publish(version()), state) == ()


def test_changed_files_create_the_next_version() -> None:
    state = problems.PROBLEM_DECIDER.fold([version(number=3)])
    (fact,) = problems.PROBLEM_DECIDER.decide(commands.Publish(version("d2")), state)
    assert isinstance(fact, ProblemPublished)
    assert (fact.number, fact.digest) == (4, "d2")


@pytest.mark.parametrize(
    ("asked", "in_file", "chosen"),
    [("cpu", (), "CPU"), (None, ("h100",), "H100"), ("H100", ("CPU",), "H100")],
)
def test_the_gpu_of_the_request_wins(
    asked: str | None, in_file: tuple[str, ...], chosen: str
) -> None:
    assert domain.choose_gpu(asked, Directives(gpus=in_file), version()) == chosen


@pytest.mark.parametrize(("asked", "in_file"), [("A100", ()), (None, ()), (None, ("CPU", "H100"))])
def test_an_unknown_or_open_gpu_is_refused_with_the_list(
    asked: str | None, in_file: tuple[str, ...]
) -> None:
    with pytest.raises(Refused, match="CPU, H100"):
        domain.choose_gpu(asked, Directives(gpus=in_file), version())


def test_an_unknown_leaderboard_is_refused() -> None:
    with pytest.raises(Refused, match="no leaderboard 'nope'"):
        problems.newest_version("nope", problems.Problem())


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(Refused, match="not one of test, benchmark, profile, ranked"):
        check_mode("fastest")


def test_a_file_for_another_leaderboard_is_refused() -> None:
    with pytest.raises(Refused, match="softmax"):
        domain.check_directives("matmul", Directives(leaderboard="softmax"))


@pytest.mark.feature("N25")
def test_the_deadline_leaves_time_for_every_stage() -> None:
    ranked = domain.deadline("ranked", version().budgets_s, T0)
    assert ranked - T0 == timedelta(seconds=3600 + 60 + 60 + 10 + 10 + 30)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("#!POPCORN", "no keyword"),
        ("#!POPCORN speed 3", "unknown directive"),
        ("#!POPCORN leaderboard a b", "one name"),
        ("#!POPCORN gpus", "gpus one or more"),
        ("#!POPCORN gpu CPU\n#!POPCORN gpus CPU", "line 2: a second"),
    ],
)
def test_an_invalid_directive_is_refused_with_its_line(text: str, what: str) -> None:
    with pytest.raises(Refused, match=what):
        read_directives(text)


def test_directives_after_the_first_code_are_ignored() -> None:
    assert read_directives("import torch\n#!POPCORN nonsense") == Directives()


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("ké rnel.py", "k__rnel.py"),
        ("..\\..\\a.py", "a.py"),
        ("", "submission"),
        ("/", "submission"),
    ],
)
def test_file_names_are_sanitized(name: str, kept: str) -> None:
    assert domain.safe_name(name) == kept


def test_a_runner_must_be_a_launcher_that_serves_the_gpu_types() -> None:
    registered = LauncherRegistered(
        kind="local", prices={"CPU": 0.0}, agents=["a"], daily_cost_max=1, start_s_max=60
    )
    domain.check_runner("local", ["CPU"], ["triton"], registered)
    with pytest.raises(Refused, match="there is no launcher 'modal'"):
        domain.check_runner("modal", ["CPU"], [], None)
    with pytest.raises(Refused, match="does not serve H100, only CPU"):
        domain.check_runner("local", ["CPU", "H100"], [], registered)
    knowing = structs.replace(registered, toolchains=["g++", "ninja"])
    domain.check_runner("local", ["CPU"], ["g++"], knowing)
    with pytest.raises(Refused, match=r"do not have triton and jax, only g\+\+, ninja") as refused:
        domain.check_runner("local", ["CPU"], ["g++", "triton", "jax"], knowing)
    assert refused.value.code == "toolchain_missing"
    assert domain.LAUNCHER_DECIDER.fold([registered]) == registered


def several(files_max: int = 16) -> ProblemPublished:
    files = {"reference.py": Blob(digest="r", bytes=1)}
    return structs.replace(version(languages=("python",)), source_files_max=files_max, files=files)


ENTRY = SourceFile("my kernel.py", b"import helper\n")


def test_several_files_are_texts_by_name_with_the_entry_first() -> None:
    files = [ENTRY, SourceFile("z.cu", b"int x;"), SourceFile("a.py", b"")]
    texts = domain.file_texts(files, several())
    assert list(texts.items()) == [
        ("my_kernel.py", "import helper\n"),
        ("z.cu", "int x;"),
        ("a.py", ""),
    ]


@pytest.mark.parametrize(
    ("file", "code", "words"),
    [
        (SourceFile("h.py", b"\xff"), "not_utf8", "h.py is not UTF-8 text: byte 0"),
        (SourceFile("h.py", b"x\0"), "not_utf8", "h.py holds a NUL byte at 1"),
        (
            SourceFile("h.py", b"#" * 90),
            "file_too_large",
            "the 2 files have 104 bytes together, of which h.py has 90",
        ),
        (SourceFile("../h.py", b""), "bad_file_name", "'../h.py' is not a valid file name"),
        (SourceFile("Reference.py", b""), "bad_file_name", "has the name of a file of the problem"),
        (SourceFile("MY_KERNEL.py", b""), "bad_file_name", "cannot be in one folder"),
    ],
)
def test_a_bad_file_beside_the_entry_is_named(file: SourceFile, code: str, words: str) -> None:
    with pytest.raises(Refused, match=re.escape(words)) as refused:
        domain.file_texts([ENTRY, file], several())
    assert (refused.value.code, refused.value.field) == (code, "files")


def test_a_problem_takes_one_file_unless_it_says_otherwise() -> None:
    with pytest.raises(Refused, match="2 files; this problem takes one file: send fewer"):
        domain.file_texts([ENTRY, SourceFile("h.py", b"")], version(languages=("python",)))


def test_an_entry_needs_what_its_other_files_need() -> None:
    texts = {"k.py": "import h", "h.py": "import triton", "x.cuh": "#include <cublas_v2.h>\n"}
    assert domain.required(texts, several(), "H100").toolchains == ["triton", "cublas"]
    # A native file that only another one can compile asks for no compiler by itself.
    assert domain.required({"k.py": "", "x.cu": ""}, several(), "H100").toolchains == []
