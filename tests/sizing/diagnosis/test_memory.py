"""Weights that an engine reports, against the expected ones."""

from __future__ import annotations

import pytest

from app.sizing.columns import GIB
from app.sizing.diagnosis.case import MemoryObservation, Observations, ServiceObservation
from app.sizing.diagnosis.diagnose import Diagnosis, diagnose
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Question
from app.sizing.result import DeviceMemory
from tests.sizing.compare.given import HEAVY
from tests.sizing.diagnosis.given import SERVES
from tests.sizing.small import SMALL


def expected_memory() -> DeviceMemory:
    found = estimate_deployment(Question(HEAVY), SERVES, SMALL).memory
    assert found is not None
    return found


def diagnosed(observed: Observations) -> Diagnosis:
    return diagnose(Question(HEAVY), SERVES, SMALL, observed)


@pytest.mark.parametrize(("share", "codes"), [(2.0, ["more_weights"]), (0.5, ["fewer_weights"]), (1.1, [])])
def test_weights_far_from_the_expected_ones_are_found(share: float, codes: list[str]) -> None:
    observed = Observations(memory=MemoryObservation(weights_bytes=share * expected_memory().weights_bytes))
    assert [f.code for f in diagnosed(observed).findings] == codes


def test_host_memory_is_a_limit_of_its_own() -> None:
    (found,) = diagnosed(Observations(memory=MemoryObservation(failed_host_bytes=2.0 * GIB))).findings
    assert (found.code, found.share) == ("out_of_host_memory", 1.0)
    assert found.text == "An allocation of 2 GiB of host memory failed."
    killed = MemoryObservation(failed_host_bytes=0.0)
    assert "was killed (signal 9)" in diagnosed(Observations(memory=killed)).findings[0].text
    # a launcher kills the other processes of a job that failed
    both = MemoryObservation(failed_host_bytes=0.0, failed_allocation_bytes=0.0)
    assert [f.code for f in diagnosed(Observations(memory=both)).findings] == ["out_of_memory"]


def test_preemptions_of_a_log_are_a_finding_of_unknown_cost() -> None:
    (found,) = diagnosed(Observations(service=ServiceObservation(preemptions=101.0))).findings
    assert (found.code, found.share, found.evidence[0].observed) == ("preemptions", None, 101)


def test_an_error_that_states_no_size_is_an_error() -> None:
    (found,) = diagnosed(Observations(memory=MemoryObservation(failed_allocation_bytes=0.0))).findings
    assert (found.code, found.evidence) == ("out_of_memory", ())
    assert found.text.startswith("An allocation failed, and the error does not state its size. Expected need: ")
