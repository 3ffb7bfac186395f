"""Families of functions that do the same work: what a policy forbids and doubts with one."""

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from harness.check.composition import read_composition
from harness.check.families import FAMILIES
from harness.problem import ShortcutPolicy
from harness.vocabulary import LIBRARIES
from harness.worker.server import _operator_counter
from tests.harness.test_shortcuts import record, screen

SUBSTITUTE = "can do the work of torch.matmul, which is not allowed"
CALLS_CUBLAS = "(cublas, which it calls, is not allowed)"
PRODUCTS_AND_CUBLAS = ShortcutPolicy(["torch.matmul", "cublas"])


@pytest.mark.parametrize(
    ("forbidden", "source"),
    [
        ("torch.matmul", "import numpy as np\nnp.linalg.matmul(a, b)"),
        ("torch.matmul", "import numpy as np\nnp.matvec(a, b)"),
        ("torch.matmul", "from numpy import vecmat\nvecmat(a, b)"),
        ("torch.matmul", "import cupy\ncupy.einsum('ij,jk', a, b)"),
        ("torch.matmul", "import jax.numpy as jnp\njnp.tensordot(a, b, 1)"),
        ("torch.matmul", "from jax import lax\nlax.dot_general(a, b, n)"),
        ("torch.matmul", "from scipy.linalg import blas\nblas.dgemm(1.0, a, b)"),
        ("torch.matmul", "import torch\ntorch.linalg.matrix_power(a, 2)"),
        ("torch.matmul", "import torch\ntorch.sparse.mm(a, b)"),
        ("torch.conv2d", "import torch.nn as nn\nnn.LazyConv2d(3, 1)"),
        ("torch.conv1d", "import numpy\nnumpy.convolve(a, b)"),
        ("torch.conv2d", "from scipy import signal\nsignal.fftconvolve(a, b)"),
        ("torch.conv2d", "import cupyx.scipy.ndimage as ndi\nndi.convolve(a, b)"),
        ("torch.linalg.solve", "import numpy as np\nnp.linalg.inv(a)"),
        ("torch.linalg.solve", "import scipy.linalg as sl\nsl.solve_triangular(a, b)"),
        ("torch.linalg.solve", "import torch\ntorch.linalg.solve_triangular(a, b, upper=True)"),
        ("torch.linalg.solve", "def f(a):\n    return a.inverse()"),
        ("torch.linalg.qr", "import jax\njax.lax.linalg.qr(a)"),
        ("torch.linalg.eigh", "import numpy as np\nnp.linalg.eigvalsh(a)"),
        ("torch.softmax", "import scipy.special as sp\nsp.softmax(a)"),
        ("torch.softmax", "import torch.nn.functional as F\nF.log_softmax(a, 0)"),
        ("torch.sort", "import numpy as np\nnp.lexsort(a)"),
        ("torch.sort", "import jax\njax.lax.top_k(a, 3)"),
        ("torch.fft.fft", "import numpy as np\nnp.fft.rfft(a)"),
        ("torch.fft.fft", "import scipy.fft\nscipy.fft.dct(a)"),
        ("cublas", "import torch\ntorch.linalg.solve_triangular(a, b, upper=True)"),
        ("cusolver", "import torch\ntorch.linalg.qr(a)"),
        ("cufft", "import torch\ntorch.stft(a, 16)"),
    ],
)
def test_the_same_work_is_forbidden_in_every_library(forbidden: str, source: str) -> None:
    screening = screen(source, ShortcutPolicy([forbidden]))
    assert screening.hits, screening.doubts
    assert all(forbidden in hit for hit in screening.hits)


@pytest.mark.parametrize("name", ["fftfreq", "fftshift"])
@pytest.mark.parametrize("library", ["numpy.fft", "scipy.fft", "torch.fft"])
def test_what_lies_beside_a_function_and_does_no_such_work_is_allowed(
    library: str, name: str
) -> None:
    screening = screen(f"import {library}\n{library}.{name}(a)", ShortcutPolicy(["torch.fft.fft"]))
    assert not screening.hits


@pytest.mark.parametrize(
    ("forbidden", "source"),
    [
        ("torch.matmul", "import torch\ntorch.conv1d(a, b)"),
        ("torch.matmul", "import torch.nn.functional as F\nF.conv1d(a, b)"),
        ("torch.matmul", "import torch\ntorch.linalg.solve_triangular(a, b, upper=True)"),
        ("torch.matmul", "import torch\ntorch.nn.functional.scaled_dot_product_attention(a, b, c)"),
        ("torch.matmul", "import torch\ntorch.nn.LSTM(3, 4)"),
        ("torch.matmul", "import torch\ntorch.cdist(a, b)"),
        ("torch.matmul", "import numpy as np\nnp.cov(a)"),
        ("torch.matmul", "import numpy as np\nnp.core.multiarray.dot(a, b)"),
        ("torch.matmul", "def f(a):\n    return a.inverse()"),
        ("torch.conv2d", "import torch\ntorch.fft.fft(a)"),
        ("torch.softmax", "import torch\ntorch.logsumexp(a, 0)"),
        ("torch.sort", "import numpy as np\nnp.partition(a, 3)"),
        ("torch.linalg.solve", "import torch\ntorch.linalg.cholesky(a)"),
        ("cublas", "import torch\ntorch.conv1d(a, b)"),
    ],
)
def test_what_can_do_the_same_work_is_a_doubt_and_no_hit(forbidden: str, source: str) -> None:
    screening = screen(source, ShortcutPolicy([forbidden]))
    assert screening.hits == []
    assert screening.doubts
    native = screen("auto c = at::convolution(a, b);", PRODUCTS_AND_CUBLAS, is_python=False)
    assert native.hits == []
    (doubt,) = native.doubts
    assert doubt == f"line 1: at::convolution {SUBSTITUTE}"


def test_a_family_has_a_title_of_its_own_and_does_the_work_of_families_that_exist() -> None:
    titles = [family.title for family in FAMILIES]
    assert len({*titles}) == len(titles)
    assert {title for family in FAMILIES for title in family.can_do} <= {*titles}
    assert {name for family in FAMILIES for name in family.libraries} <= {*LIBRARIES}


def test_every_name_of_a_family_exists_in_the_libraries_here(torch: Any) -> None:
    importlib.import_module("torch.nn.attention")
    numpy = importlib.import_module("numpy")
    for family in FAMILIES:
        assert [path for path in family.torch if not _exists(torch, path)] == []
        assert [path for path in family.numpy if not _exists(numpy, path)] == []
        modules = (torch.ops.aten, torch.Tensor)
        unknown = [
            name
            for name in family.operators
            if not any(hasattr(module, name) for module in modules)
        ]
        assert set(unknown) <= {"__imatmul__"}


def _exists(module: Any, path: str) -> bool:
    for part in path.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True


def test_a_recorded_call_shows_the_family_of_what_it_calls(torch: Any) -> None:
    matrix = torch.eye(4) + 1
    signal, weights = torch.rand(1, 4, 8), torch.rand(4, 4, 1)
    functional, linalg = torch.nn.functional, torch.linalg
    calls: Mapping[str, Sequence[Callable[[], object]]] = {
        "matrix products": [
            *(lambda: torch.matmul(matrix, matrix), lambda: torch.einsum("ij,jk", matrix, matrix)),
            *(lambda: linalg.multi_dot([matrix] * 3), lambda: torch.matrix_exp(matrix)),
            *(lambda: torch.cov(matrix), lambda: torch.sparse.mm(matrix.to_sparse(), matrix)),
            lambda: functional.bilinear(matrix, matrix, torch.rand(3, 4, 4)),
        ],
        "convolutions": [
            lambda: functional.conv1d(signal, weights),
            lambda: torch.nn.ConvTranspose1d(4, 4, 1)(signal),
        ],
        "solving linear systems": [
            *(lambda: linalg.solve(matrix, matrix), lambda: linalg.inv(matrix)),
            lambda: linalg.solve_triangular(matrix.triu(), matrix, upper=True),
            *(lambda: linalg.lstsq(matrix, matrix), lambda: linalg.pinv(matrix)),
            lambda: torch.cholesky_solve(matrix, matrix),
        ],
        "Cholesky factorization": [lambda: linalg.cholesky(matrix)],
        "LU factorization": [lambda: linalg.lu_factor(matrix), lambda: linalg.det(matrix)],
        "QR factorization": [lambda: linalg.qr(matrix)],
        "singular values": [lambda: linalg.svdvals(matrix)],
        "eigenvalues": [lambda: linalg.eigh(matrix), lambda: linalg.eig(matrix)],
        "softmax": [
            *(lambda: functional.softmin(matrix, 0), lambda: torch.log_softmax(matrix, 0)),
            lambda: functional.scaled_dot_product_attention(signal, signal, signal),
        ],
        "log-sum-exp and cross-entropy": [lambda: torch.logsumexp(matrix, 0)],
        "sorting": [
            *(lambda: torch.msort(matrix), lambda: torch.topk(matrix, 2)),
            *(lambda: torch.unique(matrix), lambda: torch.quantile(matrix, 0.5)),
        ],
        "selection": [lambda: torch.median(matrix), lambda: torch.kthvalue(matrix, 1)],
        "Fourier transforms": [
            *(lambda: torch.fft.fft2(matrix), lambda: torch.fft.irfft(matrix)),
            lambda: torch.stft(torch.rand(64), 16, window=torch.ones(16), return_complex=True),
        ],
        "recurrent and transformer layers": [lambda: torch.nn.LSTM(8, 4)(signal)],
        "distances, covariances and weighted sums": [
            lambda: torch.cdist(torch.rand(40, 4), torch.rand(40, 4)),
            lambda: functional.embedding_bag(torch.tensor([[0, 1]]), matrix, mode="sum"),
        ],
    }
    families = {family.title: family for family in FAMILIES}
    assert calls.keys() == families.keys() - {"attention"}
    for title, members in calls.items():
        for number, call in enumerate(members):
            operators: dict[str, list[float]] = {}
            with torch.no_grad(), _operator_counter(time.perf_counter)(operators):
                call()
            names = {name.rpartition("::")[2] for name in operators}
            assert names & {*families[title].operators}, f"{title}, call {number}: {names}"


def test_a_recorded_operator_that_can_do_forbidden_work_is_doubted() -> None:
    operators = [["aten::convolution", 1, 50.0], ["aten::linalg_solve_triangular", 2, 50.0]]
    composition = read_composition(record(operators=operators), PRODUCTS_AND_CUBLAS)
    assert composition is not None
    assert composition.doubts == [
        f"aten::convolution ran 1 times in a call and {SUBSTITUTE}",
        f"aten::linalg_solve_triangular ran 2 times in a call {CALLS_CUBLAS}",
    ]
