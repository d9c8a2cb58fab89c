"""What is read first: which is cheapest, why the others are not, what is short of what."""

from __future__ import annotations

from app.sizing.comparing.causes import difference
from app.sizing.comparing.months import spending
from app.sizing.comparing.phases import Elsewhere
from app.sizing.comparing.told import cheapest, hardware, money, phases_told, told
from tests.sizing.comparing.given import best, four_cards, nothing, on_big, one_card, run


def test_the_cheapest_does_what_was_asked_and_keeps_its_reserve() -> None:
    assert cheapest((one_card(), on_big(), best(), nothing())) is best()
    assert cheapest((one_card(), nothing())) is None
    able = four_cards()
    assert (able.usd or 0) < (best().usd or 0)
    assert cheapest((able, best())) is best()
    d = difference(able, best())
    assert d is not None
    assert "with less in reserve than is planned for: with as much it takes 7 acc" in told((able, best()), (d,), ())


def test_the_summary_names_hardware_money_causes_and_what_is_short() -> None:
    outcomes = (best(), on_big(), one_card())
    differences = [d for d in (difference(o, best()) for o in outcomes[1:]) if d is not None]
    spent = [s for s in (spending(best()),) if s is not None]
    text = told(outcomes, differences, spent)
    assert text.startswith(f"best costs the least: {hardware(best())} for {money(best())}.")
    assert "a card: It does not carry the load within the limits." in text
    assert f"Over 36 months {spent[0].paths[0].way.replace('_', ' ')} (" in text
    assert text.count("above all because") <= 2
    assert told((nothing(),), (), ()).startswith(
        "None of these does what was asked at a known price. for a cent: Nothing"
    )


def test_phases_say_what_each_takes_and_what_does_not_go() -> None:
    text = phases_told((run(), best()), ())
    assert text.startswith(f"training takes {hardware(run())} for {money(run())}. best takes ")
    other = Elsewhere("training", "best", "acme-card", None, None, "training: no layout fits.")
    assert phases_told((run(), best()), (other,)).endswith(" training: no layout fits.")
    assert phases_told((best(), best()), ()).endswith("The same accelerator is best for all of them.")
    assert "for a cent: Nothing" in phases_told((nothing(),), ())
