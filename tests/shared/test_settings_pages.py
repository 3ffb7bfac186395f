"""Every setting says what it means, and what happens if it is wrong, in a table of a page."""

import dataclasses
from typing import Any, get_type_hints

import pytest
from docs.settings_tables import PAGES, ROOT, SERVICES, TABLE, pages

from shared.settings import EXAMPLES, Doc


def docs(kind: type[Any]) -> dict[str, Doc]:
    """What each setting of a service says of itself."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name].__metadata__[0] for field in dataclasses.fields(kind)}


@pytest.mark.parametrize("service", SERVICES)
def test_a_setting_says_what_it_means_and_what_happens_if_it_is_wrong(service: str) -> None:
    for name, doc in docs(SERVICES[service]).items():
        assert isinstance(doc, Doc), name
        assert doc.meaning, name
        assert doc.wrong, name


def test_each_table_of_settings_has_one_place() -> None:
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    found = [match[2] for text in texts for match in TABLE.finditer(text)]
    tables = {
        f"{service}.{doc.group}" if doc.group else service
        for service, kind in SERVICES.items()
        for doc in docs(kind).values()
    }
    assert sorted(found) == sorted(tables)


def test_the_tables_are_those_of_the_code() -> None:
    for page, text in pages().items():
        assert page.read_text(encoding="utf-8") == text, "stale: run `make docs`"


@pytest.mark.parametrize("service", SERVICES)
def test_every_setting_that_is_required_has_an_example(service: str) -> None:
    fields = dataclasses.fields(SERVICES[service])
    required = [field.name for field in fields if field.default is dataclasses.MISSING]
    assert [name for name in required if name not in EXAMPLES] == []
