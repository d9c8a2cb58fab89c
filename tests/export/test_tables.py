"""Tables of the command line and of agents' texts."""

from __future__ import annotations

from app.export.tables import OutputFormat, render_rows


def test_a_year_is_shown_as_one_and_other_numbers_grouped() -> None:
    table = render_rows(
        [{"name": "h100", "release_year": 2022, "memory_gb_per_s": 3350.0, "seen": None}], OutputFormat.TABLE
    )
    assert "2022" in table and "2,022" not in table and "3,350" in table
