"""A shared object's custom_kernel is called with the tensors of a case."""

import os
from pathlib import Path
from typing import Any

import pytest

from harness.build import command
from harness.worker import native
from harness.worker.protocol import DTYPES, SubmissionFailure

from .builds import CPP, built

HEAD = """\
#include "warpboard.h"
#include <cstring>
int custom_kernel(const wb_tensor *inputs, int inputs_count,
                  wb_tensor *outputs, int outputs_count, const char *scalars, void *stream) {
"""
DESCRIBE = """\
    int64_t *said = (int64_t *)outputs[0].data;
    *said++ = inputs_count;
    *said++ = outputs_count;
    *said++ = stream == nullptr;
    for (int i = 0; i < inputs_count; i++) {
        *said++ = inputs[i].dtype;
        *said++ = inputs[i].ndim;
        for (int d = 0; d < inputs[i].ndim; d++) {
            *said++ = inputs[i].shape[d];
            *said++ = inputs[i].strides[d];
        }
    }
    return 0;
"""


def _loaded(folder: Path, body: str, memory: int, more: str = "") -> native.NativeKernel:
    built(folder, "submission.cpp", f"{HEAD}{body}}}\n{more}", memory)
    kernel = native.load_built_kernel(os.dup(memory))
    assert isinstance(kernel, native.NativeKernel)
    return kernel


@pytest.mark.usefixtures("gxx")
def test_a_cpp_kernel_computes_in_place(tmp_path: Path, torch: Any, memory: int) -> None:
    built(tmp_path, "submission.cpp", CPP, memory)
    x, y = torch.arange(6.0).reshape(2, 3), torch.empty(2, 3)
    call = native.load_built_kernel(os.dup(memory)).bind([x], [y])
    call(b"")
    assert torch.equal(y, x + 1)
    x.mul_(10)
    call(b"[]")
    assert torch.equal(y, x + 1)


@pytest.mark.usefixtures("gxx")
def test_tensors_are_described_as_they_are(tmp_path: Path, torch: Any, memory: int) -> None:
    kernel = _loaded(tmp_path, DESCRIBE, memory)
    inputs = [
        torch.zeros(2, 3).t(),
        torch.zeros((), dtype=torch.bool),
        torch.zeros(4, dtype=torch.bfloat16)[::2],
    ]
    said = torch.full((16,), -1, dtype=torch.int64)
    kernel.bind(inputs, [said])(b"")
    assert said.tolist() == [3, 1, 1, 8, 2, 3, 1, 2, 3, 0, 0, 7, 1, 2, 2, -1]


@pytest.mark.usefixtures("gxx")
def test_plain_values_come_as_json(tmp_path: Path, torch: Any, memory: int) -> None:
    kernel = _loaded(tmp_path, '    return strcmp(scalars, R"([2.5, true])");\n', memory)
    call = kernel.bind([], [torch.zeros(1)])
    call(b"[2.5, true]")
    with pytest.raises(SubmissionFailure, match="custom_kernel returned"):
        call(b"")


@pytest.mark.usefixtures("gxx")
@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("", "custom_kernel returned 7"),
        ('const char *wb_error() { return "no room"; }', "custom_kernel returned 7: no room"),
        ("const char *wb_error() { return nullptr; }", "custom_kernel returned 7"),
        ('const char *wb_error() { return "\\xff"; }', "custom_kernel returned 7: \ufffd"),
    ],
)
def test_an_error_code_is_told_with_its_words(
    tmp_path: Path, memory: int, more: str, text: str
) -> None:
    call = _loaded(tmp_path, "    return 7;\n", memory, more).bind([], [])
    with pytest.raises(SubmissionFailure) as caught:
        call(b"")
    assert (caught.value.kind, caught.value.text) == ("exception", text)


@pytest.mark.usefixtures("gxx")
def test_a_library_without_the_function_is_named(tmp_path: Path, memory: int) -> None:
    built(tmp_path, "submission.cpp", "int other() { return 0; }\n", memory)
    with pytest.raises(SubmissionFailure, match='defines no extern "C" custom_kernel') as caught:
        native.load_built_kernel(os.dup(memory))
    assert caught.value.kind == "import_error"


def test_what_is_no_library_is_named(memory: int) -> None:
    os.write(memory, b"not ELF")
    with pytest.raises(SubmissionFailure, match="cannot be loaded") as caught:
        native.load_built_kernel(os.dup(memory))
    assert caught.value.kind == "import_error"


@pytest.mark.usefixtures("gxx")
def test_bfloat16_is_rounded_as_torch_does(tmp_path: Path, torch: Any, memory: int) -> None:
    body = """\
    const float *x = (const float *)inputs[0].data;
    for (int64_t i = 0; i < wb_numel(inputs); i++) {
        ((uint16_t *)outputs[0].data)[i] = wb_to_bfloat16(x[i]);
        ((float *)outputs[1].data)[i] = wb_from_bfloat16(wb_to_bfloat16(x[i]));
    }
    return 0;
"""
    words = torch.randint(-(2**31), 2**31, (100_000,), dtype=torch.int32)
    x = words.view(torch.float32)
    x[:4] = torch.tensor([float("inf"), float("-inf"), float("nan"), 3.3895e38])
    narrow, wide = torch.empty_like(x, dtype=torch.bfloat16), torch.empty_like(x)
    _loaded(tmp_path, body, memory).bind([x], [narrow, wide])(b"")
    torch.testing.assert_close(narrow, x.bfloat16(), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(wide, narrow.float(), rtol=0, atol=0, equal_nan=True)


def test_the_codes_are_those_of_the_header() -> None:
    text = command.HEADER.read_text()
    for name, code in DTYPES.items():
        assert f"WB_{name.upper()} = {code}" in text
    assert len(set(DTYPES.values())) == len(DTYPES)


def test_every_code_is_a_dtype_of_torch(torch: Any) -> None:
    assert all(isinstance(getattr(torch, name), torch.dtype) for name in DTYPES)


def test_a_dtype_without_a_code_is_refused(torch: Any) -> None:
    kernel = native.NativeKernel(None, None)  # type: ignore[arg-type]  # never called
    with pytest.raises(SubmissionFailure, match="cannot receive bits8 tensors"):
        kernel.bind([torch.empty(1, dtype=torch.bits8)], [])
