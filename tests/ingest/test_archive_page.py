"""The page of the archive: the best kernels of each operation."""

from ingest.site.archive import BEST_OF_OPERATION_MAX, list_best
from shared.api.archive import ArchivedKernel
from shared.api.fields import parse_response
from tests.support.api_examples import make_document


def kernel(number: int, problem: str, gpu: str, *operations: str) -> ArchivedKernel:
    fields = {"number": number, "problem": problem, "gpu": gpu, "operations": list(operations)}
    return parse_response(make_document(ArchivedKernel, fields), ArchivedKernel)


def test_each_operation_has_its_best_kernels_and_each_leaderboard_one_of_them() -> None:
    # As the search sorts them, the best first.
    kernels = [
        kernel(1, "softmax", "H100", "exponential", "softmax"),
        kernel(2, "softmax", "H100", "softmax"),
        kernel(3, "softmax", "CPU", "softmax"),
        kernel(4, "copy", "CPU"),
        *(kernel(5 + place, f"softmax-{place}", "CPU", "softmax") for place in range(4)),
    ]
    best = [(it.operation, [kernel.number for kernel in it.kernels]) for it in list_best(kernels)]
    assert best == [("exponential", [1]), ("softmax", [1, 3, 5]), ("", [4])]
    assert BEST_OF_OPERATION_MAX == 3
