"""The roofline in a warpboard.yml, and its comparison with times and GPU types."""

import json

import pytest
from docs import gpus as page
from hypothesis import given
from hypothesis import strategies as st

from harness.gpus import DTYPES, find_gpu_spec, gpu_specs
from shared.errors import Refused
from shared.problems.roofline import Work, compare_to_roofline, floors_us, roofline_us
from tests.shared.problems.examples import compile_example

WHOLE = b"""\
title: Doubling
roofline:
  bytes: 8*size
  written: 4*size
  flops: size
  dtype: fp32
  floor_us: 0.25
"""
COUNTS = st.floats(0, 1e12)


def test_each_timed_case_has_its_least_work() -> None:
    version = compile_example(warpboard_yml=WHOLE)
    (work,) = version.works
    assert work == Work("size=1024 seed=3", 8192.0, 4096.0, 1024.0, "fp32", 0.25)
    entry = json.loads(version.manifest)["roofline"]
    assert (entry["bytes"], entry["floor_us"]) == ("8*size", "0.25")
    assert entry["cases"] == [
        {"bytes": 8192.0, "written": 4096.0, "flops": 1024.0, "floor_us": 0.25}
    ]


def test_a_problem_that_says_nothing_keeps_its_digest() -> None:
    version = compile_example(warpboard_yml=b"title: Doubling\n")
    assert version.works == ()
    assert "roofline" not in json.loads(version.manifest)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("bytes: 8*sise", 2, "bytes '8*sise' names 'sise', which the case does not have"),
        ("bytes: -1", 2, "bytes '-1' is -1: it must be at least 0"),
        ("bytes: [1]", 2, "'roofline.bytes' must be a valid string, not a list"),
        ("bytes: true", 2, "'roofline.bytes' must be a valid string, not 'True'"),
        ("bites: 8", 2, "unknown key 'bites' in 'roofline': did you mean 'bytes'?"),
        ("floor_us: 1\n  written: 8", 3, "written is a part of bytes: write bytes too"),
        ("bytes: 8\n  written: 9", 3, "written is more than bytes for the case size=1024 seed=3"),
        ("flops: 8", 2, "flops without a dtype: write that of the fastest unit"),
        ("bytes: 8\n  dtype: fp32", 3, "a dtype without flops"),
        ("flops: 8\n  dtype: fp31", 3, "not 'fp31'"),
        ("dtype: fp32\n  written: 8", 1, "the roofline is empty: write bytes, flops or floor_us"),
    ],
)
def test_a_bad_roofline_is_refused_with_its_line(text: str, line: int, said: str) -> None:
    with pytest.raises(Refused) as refused:
        compile_example(warpboard_yml=f"roofline:\n  {text}\n".encode())
    assert refused.value.reason.startswith(f"warpboard.yml, line {line}: ")
    assert said in refused.value.reason


def test_the_slower_of_two_limits_is_the_roofline() -> None:
    memory = Work("n", bytes=4.8e6, flops=1e6, dtype="fp32")
    compute = Work("n", bytes=4.8e6, flops=133.8e6, dtype="fp32")
    assert (roofline_us(memory, "H200"), roofline_us(compute, "H200")) == pytest.approx((1.0, 2.0))
    bounds = [
        result and result.bound
        for result in (compare_to_roofline(work, "H200", 4.0) for work in (memory, compute))
    ]
    assert bounds == ["memory", "compute"]


def test_where_a_unit_is_missing_the_bytes_alone_count() -> None:
    assert roofline_us(Work("n", bytes=320e3, flops=1e9, dtype="tf32"), "T4") == pytest.approx(1.0)
    assert roofline_us(Work("n", flops=1e9, dtype="tf32"), "T4") is None


def test_on_the_processor_there_are_rates_and_no_share() -> None:
    result = compare_to_roofline(Work("n", bytes=8e3, flops=2e3, dtype="fp32"), "CPU", 2.0)
    assert result is not None
    assert (result.bandwidth_gb_s, result.gflops, result.share, result.bound) == (
        4.0,
        1.0,
        None,
        None,
    )
    assert compare_to_roofline(Work("n", bytes=8.0), "CPU", 0.0) is None


@given(total=COUNTS, part=st.floats(0, 1), flops=COUNTS, dtype=st.sampled_from(DTYPES))
def test_a_floor_is_never_over_its_roofline(
    total: float, part: float, flops: float, dtype: str
) -> None:
    work = Work("n", bytes=total, written=total * part, flops=flops, dtype=dtype)
    for kind, floor_us in floors_us(work).items():
        assert 0 < floor_us <= (roofline_us(work, kind) or 0.0)


def test_what_fits_the_cache_need_not_be_written_out() -> None:
    copied = floors_us(Work("n", bytes=96e6, written=48e6))
    read = floors_us(Work("n", bytes=48e6))
    assert copied["H200"] == read["H200"]
    assert read["T4"] < copied["T4"] < 2 * read["T4"]


def test_an_authors_floor_goes_before_and_nought_is_none() -> None:
    assert floors_us(Work("n", bytes=1e9, floor_us=2.0)) == {"": 2.0}
    assert floors_us(Work("n", bytes=1e9, floor_us=0.0)) == {}
    assert set(floors_us(Work("n", bytes=1e9))) == {spec.name for spec in gpu_specs()}


def test_every_row_of_the_table_is_named_once_and_has_known_units() -> None:
    names = [spec.name for spec in gpu_specs()]
    assert len(set(names)) == len(names)
    assert find_gpu_spec("h200") is find_gpu_spec("H200") is not None
    for spec in gpu_specs():
        assert set(spec.tflops) <= set(DTYPES)
        assert spec.source
        assert spec.looked_up_in
        # In the order of units, a shorter number is never slower.
        rates = [
            spec.tflops[name]
            for name in ("fp32", "tf32", "fp16", "fp8", "fp4")
            if name in spec.tflops
        ]
        assert rates == sorted(rates)


def test_the_page_of_the_table_is_fresh() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.page()
