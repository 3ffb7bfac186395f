"""The files of a submission: which names are accepted, and their bytes as one blob."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.build.command import DRIVER, HEADER
from harness.vocabulary import BOX_FILES
from shared.errors import Failed, Refused
from shared.problems.compilation import compile_problem
from shared.source_files import (
    NAME_LENGTH_MAX,
    SOURCE_FILES_MAX,
    SourceFile,
    check_files,
    pack_files,
    unpack_files,
)
from tests.shared.problems.examples import FILES

ENTRY = SourceFile("kernel.py", b"import helper\n")


def refusal(name: str) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        check_files(ENTRY.name, [SourceFile(name, b"")], SOURCE_FILES_MAX, ["reference.py"])
    assert refused.value.field == "files"
    return refused.value.code, refused.value.reason


@pytest.mark.parametrize(
    "name",
    [
        "helper.cu",
        "lib/tile.cuh",
        "a/b/c/d.h",
        "__init__.py",
        "lib/__init__.py",
        "_x.py",
        "X.PTX.h",
    ],
)
def test_a_plain_path_is_accepted(name: str) -> None:
    check_files(ENTRY.name, [SourceFile(name, b"")], SOURCE_FILES_MAX, ["reference.py"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../helper.py", "path relative to the entry"),
        ("lib/../../helper.py", "path relative to the entry"),
        ("/etc/passwd.txt", "path relative to the entry"),
        ("C:\\helper.py", "path relative to the entry"),
        ("lib\\helper.py", "path relative to the entry"),
        ("lib//helper.py", "path relative to the entry"),
        ("./helper.py", "path relative to the entry"),
        (".hidden.py", "path relative to the entry"),
        ("lib/.git/x.py", "path relative to the entry"),
        ("-o.py", "path relative to the entry"),
        ("a b.py", "path relative to the entry"),
        ("h\u00e9lper.py", "path relative to the entry"),
        ("helper.py\n", "path relative to the entry"),
        ("helper\0.py", "path relative to the entry"),
        ("\u202ehelper.py", "path relative to the entry"),
        ("", "path relative to the entry"),
        ("a/" * 70 + "x.py", "path relative to the entry"),
        ("a/b/c/d/e.h", "use at most 3"),
        ("utils.py", "name of a file of the problem or of the harness"),
        ("WarpBoard.h", "name of a file of the problem or of the harness"),
        ("Reference.py", "name of a file of the problem or of the harness"),
        ("reference.py/x.py", "name of a file of the problem or of the harness"),
        ("torch.py", "hide the module torch"),
        ("Torch/nn.py", "hide the module torch"),
        ("json.py", "hide the module json"),
        ("harness/x.py", "hide the module harness"),
        ("sitecustomize.py", "hide the module sitecustomize"),
        ("submission.py", "hide the module submission"),
        ("submission.cu", "name that the entry gets"),
        ("kernel.py", "cannot be in one folder"),
        ("KERNEL.py", "cannot be in one folder"),
        ("kernel.py/x.py", "cannot be in one folder"),
    ],
)
def test_any_other_name_is_refused_with_the_fix(name: str, words: str) -> None:
    code, reason = refusal(name)
    assert words in reason
    assert code == "bad_file_name"


@pytest.mark.parametrize("name", ["helper.so", "helper", "data.bin", "Makefile", "x.PY"])
def test_only_text_has_an_accepted_suffix(name: str) -> None:
    assert refusal(name)[0] == "bad_extension"


@pytest.mark.parametrize("name", ["all.zip", "lib/all.tar.gz", "ALL.ZIP"])
def test_an_archive_is_refused(name: str) -> None:
    assert refusal(name)[0] == "archive_not_supported"


def test_names_that_differ_in_case_are_equal() -> None:
    for first, second in (("lib/Tile.h", "LIB/tile.h"), ("a.h/b.h", "A.h"), ("A.h", "a.h/b.h")):
        files = [SourceFile(first, b""), SourceFile(second, b"")]
        with pytest.raises(Refused, match="cannot be in one folder: rename one of them"):
            check_files(ENTRY.name, files, SOURCE_FILES_MAX, [])
    check_files(ENTRY.name, [SourceFile("a/b.h", b""), SourceFile("A.h", b"")], 3, [])


def test_the_number_of_files_is_limited_with_the_entry() -> None:
    others = [SourceFile(f"h{number}.py", b"") for number in range(SOURCE_FILES_MAX)]
    check_files(ENTRY.name, others[1:], SOURCE_FILES_MAX, [])
    with pytest.raises(Refused, match="17 files; this problem takes at most 16") as refused:
        check_files(ENTRY.name, others, SOURCE_FILES_MAX, [])
    assert refused.value.code == "too_many_files"
    with pytest.raises(Refused, match="2 files; this problem takes one file"):
        check_files(ENTRY.name, others[:1], 1, [])
    check_files(ENTRY.name, [], 1, [])


def test_the_reserved_names_are_those_of_a_run() -> None:
    ours = {path.name for path in (HEADER, *DRIVER.parent.iterdir())}
    assert ours | {"utils.py", "reference.cuh"} == set(BOX_FILES)


names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,20}(/[a-z]{1,5}){0,2}", fullmatch=True)


@given(
    st.binary().filter(lambda data: b"\0" not in data),
    st.dictionaries(names, st.binary(), max_size=SOURCE_FILES_MAX - 1),
)
def test_what_is_packed_is_unpacked(entry: bytes, others: dict[str, bytes]) -> None:
    files = [SourceFile("k.py", entry), *(SourceFile(*item) for item in sorted(others.items()))]
    blob = pack_files(files)
    assert unpack_files("k.py", blob) == tuple(files)
    assert blob == pack_files([files[0], *reversed(files[1:])])


def test_moved_text_makes_another_blob() -> None:
    first = pack_files([ENTRY, SourceFile("a.h", b"ab"), SourceFile("b.h", b"c")])
    assert first != pack_files([ENTRY, SourceFile("a.h", b"a"), SourceFile("b.h", b"bc")])
    assert first != pack_files([ENTRY, SourceFile("a.h", b"ab"), SourceFile("c.h", b"c")])


@pytest.mark.parametrize(
    "blob",
    [
        b"\0files ",
        b"\0files []\n",
        b'\0files [["k.py", 9]]\nx',
        b'\0files [["k.py", 2], ["h.py", -1]]\nx',
        b'\0files [["k.py", 1], ["../h.py", 0]]\nx',
        b'\0files [["k.py", 1], ["/h.py", 0]]\nx',
        b'\0files {"k.py": 1}\nx',
        b"\0files \xff\nx",
    ],
)
def test_a_damaged_blob_is_no_submission(blob: bytes) -> None:
    with pytest.raises(Failed, match="files of a submission"):
        unpack_files("k.py", blob)


def test_the_length_of_a_name_is_limited() -> None:
    folders = f"{'a' * 60}/{'b' * 60}"
    longest = f"{folders}/{'c' * (NAME_LENGTH_MAX - len(folders) - len('/.h'))}.h"
    check_files(ENTRY.name, [SourceFile(longest, b"")], SOURCE_FILES_MAX, [])
    assert refusal(longest.replace(".h", "c.h"))[0] == "bad_file_name"


def test_a_problem_says_how_many_files_it_takes() -> None:
    one = compile_problem("copy", FILES)
    assert (one.source_files_max, one.requires.release) == (1, "")
    assert b"source_files_max" not in one.manifest
    several = compile_problem("copy", FILES | {"warpboard.yml": b"limits: {files: 16}\n"})
    # Earlier agents would run what holds all files as the source of one.
    assert (several.source_files_max, several.requires.release) == (16, "0.3.0")
    assert several.digest != one.digest
    for value in (b"0", b"17", b"many"):
        with pytest.raises(Refused, match="files"):
            compile_problem("copy", FILES | {"warpboard.yml": b"limits: {files: %s}\n" % value})


def test_a_problem_of_several_files_has_a_submission_of_the_reserved_name() -> None:
    task = FILES["task.yml"].replace(b"submission.py", b"kernel.py")
    files = FILES | {"task.yml": task, "warpboard.yml": b"limits: {files: 2}\n"}
    with pytest.raises(Refused, match=r"with source @SUBMISSION@ submission\.py"):
        compile_problem("copy", files)
