"""Filters of lists accept names as people write them; a value that no row has is refused with the nearest one."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.examples import answer_of


def items(client: TestClient, what: str, **filters: str | int) -> list[dict[str, str]]:
    return list(answer_of(client.get(f"/catalog/{what}", params={"limit": 1000, **filters}))["items"])


@pytest.mark.parametrize(
    ("what", "typed", "said"),
    [
        ("accelerators", {"vendor": "nvidia"}, {"vendor": "NVIDIA"}),
        ("accelerators", {"vendor": "Amazon"}, {"vendor": "AWS"}),
        ("systems", {"accelerator": "H100 SXM"}, {"accelerator": "nvidia-h100-sxm5-80gb"}),
        ("offers", {"provider": "Amazon", "pricing_model": "Spot"}, {"provider": "aws", "pricing_model": "spot"}),
        ("offers", {"accelerator": "L4", "pricing_model": "reserved 1Y"}, {"pricing_model": "reserved_1y"}),
        ("prices", {"accelerator": "nvidia l4"}, {"accelerator": "nvidia-l4"}),
        ("models", {"modality": "TEXT"}, {"modality": "text"}),
        ("engines", {"engine": "TRT-LLM", "phase": "Inference"}, {"engine": "tensorrt-llm", "phase": "inference"}),
    ],
)
def test_names_are_taken_as_people_write_them(
    client: TestClient, what: str, typed: dict[str, str], said: dict[str, str]
) -> None:
    found = items(client, what, **typed)
    assert found
    assert {name: {row[name] for row in found} for name in said} == {name: {value} for name, value in said.items()}


def test_a_name_that_fits_several_lists_them_all(client: TestClient) -> None:
    of_any = {row["accelerator"] for row in items(client, "offers", accelerator="h100")}
    assert len(of_any) > 1 and all("h100" in slug for slug in of_any)
    assert of_any == {row["accelerator"] for row in items(client, "offers", accelerator="nvidia-h100*")}
    regions = {row["country"] for row in items(client, "offers", accelerator="l4", region="DE")}
    assert regions == {"DE"}


@pytest.mark.parametrize(
    ("typed", "slug"),
    [("h100", "nvidia-h100-sxm5-80gb"), ("RTX 4090", "nvidia-rtx-4090"), ("mi30", "amd-mi300x"), ("*l4", "nvidia-l4")],
)
def test_accelerators_are_searched_by_name(client: TestClient, typed: str, slug: str) -> None:
    found = [row["slug"] for row in items(client, "accelerators", q=typed)]
    assert slug in found and len(found) < 12
    assert items(client, "accelerators", q="no such chip") == []


def test_a_model_is_found_by_what_it_is_called(client: TestClient) -> None:
    assert "meta-llama/Llama-3.1-70B" in [row["id"] for row in items(client, "models", q="Llama 3.1 70B")]


@pytest.mark.parametrize(
    ("query", "pointer", "says"),
    [
        ("offers?provider=awss", "query/provider", "Did you mean aws"),
        ("offers?accelerator=nvidia-h1000", "query/accelerator", "Did you mean "),
        ("prices?region=us-est-1", "query/region", "Did you mean us-east-1"),
        ("engines?phase=%E4%B8%AD", "query/phase", "Accepted: "),
        ("offers?acelerator=h100", "query/acelerator", "Did you mean accelerator?"),
        ("models?search=llama", "query/search", "Accepted fields: cursor, family, limit, modality, q"),
    ],
)
def test_what_no_row_could_have_is_refused_with_the_nearest(
    client: TestClient, query: str, pointer: str, says: str
) -> None:
    (error,) = answer_of(client.get(f"/catalog/{query}"), 422)["errors"]
    assert error["pointer"] == pointer and says in error["detail"]


def test_names_that_no_row_has_together_are_an_empty_list(client: TestClient) -> None:
    assert items(client, "offers", provider="aws", accelerator="amd-mi455x") == []
