"""The stated level of software support, and the wider intervals of software that only rules support."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.answer.support import expected_reason, with_support
from app.sizing.assumptions import Assumptions
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Deployment, Question
from tests.examples import CHAT, PRETRAIN
from tests.sizing.small import SMALL


def test_documented_software_is_reported_without_a_warning() -> None:
    found = estimate_deployment(Question(CHAT), Deployment("acme-big", engine="vllm", weight_format="bf16"), SMALL)
    assert (found.support, found.rule) == ("documented", "")
    assert "support_expected" not in {r.code for r in found.explanation}


def test_what_only_rules_say_is_answered_with_wider_intervals_and_posts_back() -> None:
    question = Question(CHAT)
    found = estimate_deployment(question, Deployment("acme-big", engine="sglang", weight_format="bf16"), SMALL)
    assert found.support == "expected"
    (reason,) = (r for r in found.explanation if r.code == "support_expected")
    assert "SGLang computes in BF16 on compute capability 9.0." in reason.text
    assert estimate_deployment(question, found.deployment, SMALL).performance == found.performance
    assert found.performance is not None
    narrow = replace(question, assumptions=replace(Assumptions(), expected_support_widening=1.0))
    plain = estimate_deployment(narrow, found.deployment, SMALL).performance
    assert plain is not None
    wide, usual = found.performance.interval, plain.interval
    assert wide.high / wide.low > usual.high / usual.low


def test_training_says_it_too() -> None:
    run = replace(PRETRAIN, deadline_s=1e9)
    found = estimate_deployment(Question(run), Deployment("acme-big", framework="torchtitan"), SMALL)
    assert found.support == "expected"
    assert with_support(found, run, SMALL, Assumptions(), expected=False).support == "documented"
    assert "TorchTitan computes in BF16" in expected_reason(found, run, SMALL, Assumptions()).text


def test_a_refusal_names_phase_method_and_rule() -> None:
    run = replace(PRETRAIN, precision="mxfp8")
    found = estimate_deployment(Question(run), Deployment("acme-big", framework="megatron"), SMALL)
    assert (found.fits, found.support) == (False, None)
    assert found.rule == "Acme Big has compute capability 9.0; MXFP8 requires 10.0 or higher."
    text = found.explanation[0].text
    assert text.startswith("Megatron-LM does not support training of text generation models in MXFP8 on Acme Big.")
