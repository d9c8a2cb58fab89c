"""A deployment is one value: requests, answers and the core have the same fields."""

from __future__ import annotations

from dataclasses import fields

from app.api.schemas.answers import DeploymentShown
from app.api.schemas.replica import OfferSpec
from app.api.schemas.requests import DeploymentSpec
from app.sizing.question import Deployment


def test_a_deployment_has_the_same_fields_on_the_wire_and_in_the_core() -> None:
    asked = (DeploymentSpec.model_fields.keys() - {"offer"}) | OfferSpec.model_fields.keys()
    assert asked == {f.name for f in fields(Deployment)}
    assert DeploymentShown.model_fields.keys() == DeploymentSpec.model_fields.keys()
