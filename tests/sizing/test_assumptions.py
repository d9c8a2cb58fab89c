"""Every chosen number has a range and can be replaced."""

from __future__ import annotations

import pytest

from app.sizing.assumptions import Assumptions


def test_assumptions_refuse_what_is_out_of_range() -> None:
    changed = Assumptions().with_overrides({"target_utilization": 0.5})
    assert changed.target_utilization == 0.5
    with pytest.raises(Exception, match="must be from"):
        Assumptions().with_overrides({"target_utilization": 7})
    with pytest.raises(Exception, match="no assumption"):
        Assumptions().with_overrides({"luck": 1})
