"""The API's types: every one has a schema and survives a round trip, and reports read them."""

import importlib
import pkgutil
from collections.abc import Iterator

import msgspec
import pytest

import shared.api
from shared.api.fields import ApiModel
from shared.api.submissions import FullSubmission, Ranking, SubmissionSummary
from shared.presentation.report_parts import stages
from shared.presentation.result_card import make_result_card
from tests.support.api_examples import make_example


def models(base: type[ApiModel] = ApiModel) -> Iterator[type[ApiModel]]:
    """Yield every type of the API."""
    for name in pkgutil.iter_modules(shared.api.__path__, "shared.api."):
        importlib.import_module(name.name)
    for model in base.__subclasses__():
        yield model
        yield from models(model)


def test_no_two_types_share_a_name() -> None:
    names = [model.__name__ for model in models()]
    assert len(names) > 100
    assert len(names) == len(set(names))


@pytest.mark.parametrize("model", list(models()), ids=lambda model: model.__name__)
def test_a_type_has_a_schema_and_survives_a_round_trip(model: type[ApiModel]) -> None:
    schema = msgspec.json.schema(model)
    assert schema["$defs"][model.__name__]["description"]
    example = make_example(model)
    assert msgspec.json.decode(msgspec.json.encode(example), type=model) == example


def test_clients_decode_both_forms_of_a_submission() -> None:
    public = make_example(SubmissionSummary, number=7, verdict="passed")
    decoded = msgspec.json.decode(msgspec.json.encode(public), type=FullSubmission)
    assert (decoded.number, decoded.verdict, decoded.note) == (7, "passed", None)


def test_a_ranking_says_how_far_it_is_from_others() -> None:
    ranking = make_example(Ranking, score_us=9.0, own_best_us=10.0, delta_to_next=2e-6)
    assert make_result_card(make_example(FullSubmission, ranking=ranking)).distance == (
        "1 µs (10 %) faster than your best before, 2 µs behind the next place"
    )


def test_stages_after_a_failure_are_skipped() -> None:
    failed = {"verdict": "compile_error", "mode": "test"}
    submission = make_example(FullSubmission, stage="build", **failed)
    assert [stage.verdict for stage in stages(submission)] == ["compile_error", "skipped"]
    # Other users do not see the failing stage.
    assert stages(make_example(FullSubmission, stage=None, **failed)) == []
