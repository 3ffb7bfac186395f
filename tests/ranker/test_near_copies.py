"""Which earlier submission another one is nearly a copy of."""

from dataclasses import replace
from pathlib import Path

from ranker.domain.kernel_text import read_kernel, similarity
from ranker.domain.near_copies import CANDIDATES_MAX, NearCopyFinder, SignedSource
from shared.api.lineage import SIMILARITY_MIN

SOLUTIONS = Path(__file__).parents[2] / "problems" / "softmax" / "solutions" / "correct"
ROWS = (SOLUTIONS / "triton_rows.py").read_text()
OTHER = (SOLUTIONS / "numba_fused.py").read_text()
# The same kernel with other names and another block size.
TUNED = ROWS.replace("rows", "lines").replace("1024", "512")
CHANGED = ROWS + "\n\ndef warm_up(device):\n    torch.cuda.synchronize(device)\n"


def signed(number: int, account: str, text: str, gpu: str = "CPU") -> SignedSource:
    return SignedSource(number, account, gpu, text, read_kernel(text).signature)


def test_a_copy_comes_from_the_nearest_earlier_submission_whoever_sent_it() -> None:
    finder = NearCopyFinder()
    assert finder.add(signed(10, "ada", ROWS)) is None
    assert finder.add(signed(11, "eve", OTHER)) is None
    assert similarity(read_kernel(ROWS).signature, read_kernel(OTHER).signature) < SIMILARITY_MIN
    copy = finder.add(signed(12, "eve", TUNED))
    assert copy == (10, 1.0)
    changed = finder.add(signed(13, "ada", CHANGED))
    # Of two equally near ones, the newest.
    assert changed is not None
    assert changed.parent == 12
    assert SIMILARITY_MIN <= changed.similarity < 1
    # What is no code has no parent and is none.
    assert finder.add(signed(14, "ada", "")) is None
    assert finder.add(signed(15, "ada", "")) is None


def test_a_repeated_source_is_no_child_of_itself_or_of_its_copies() -> None:
    finder = NearCopyFinder()
    finder.add(signed(1, "ada", CHANGED))
    first = finder.add(signed(2, "ada", ROWS))
    assert first is not None
    assert first.parent == 1
    assert finder.add(signed(3, "eve", ROWS)) == (2, 1.0)
    # Ada sends it again: Eve's copy came later than hers.
    assert finder.add(signed(4, "ada", ROWS)) == first


def test_of_equally_near_ones_that_on_the_same_gpu_type_is_the_parent() -> None:
    finder = NearCopyFinder()
    for number, gpu in ((1, "H100"), (2, "CPU")):
        assert finder.add(signed(number, "ada", ROWS, gpu)) is None
    assert [
        finder.add(signed(3 + at, "eve", ROWS, gpu)) for at, gpu in enumerate(("H100", "CPU"))
    ] == [
        (1, 1.0),
        (2, 1.0),
    ]


def test_only_the_newest_are_compared_and_a_later_start_finds_the_same() -> None:
    base = [signed(1, "ada", ROWS), signed(2, "eve", CHANGED), signed(3, "ada", OTHER)]
    submissions = [
        replace(base[number % 3], number=number, account=f"a{number % 7}", source=str(number % 40))
        for number in range(1, CANDIDATES_MAX + 120)
    ]
    whole = NearCopyFinder()
    found = [whole.add(submission) for submission in submissions]
    later = NearCopyFinder()
    for submission in submissions[-CANDIDATES_MAX - 20 : -20]:
        later.add(submission)
    assert [later.add(submission) for submission in submissions[-20:]] == found[-20:]
    assert any(found)
    alone = NearCopyFinder()
    alone.add(signed(1, "zoe", ROWS))
    for number in range(2, CANDIDATES_MAX + 2):
        alone.add(signed(number, "ada", OTHER))
    assert alone.add(signed(CANDIDATES_MAX + 2, "eve", ROWS)) is None
