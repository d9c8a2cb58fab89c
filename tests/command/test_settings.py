"""Every setting with wrong values: each is reported in one sentence, without its value."""

from __future__ import annotations

import re

import pytest
import typer

from app.command.ending import Exit
from app.command.settings import load_settings
from app.config import Settings

WRONG = ("hush", "-1", "1e99", "1e400", "nan", "[", "{}", '["hush"]', '[{"hush": 1}]', "[1,2]", "", "9" * 5000)
SENTENCE = re.compile(r"HEADROOM_([A-Z_]+)(?: [a-z0-9_]+)*: (?:must be|must begin|is) [^\n]{2,200}\.")
ANY_TEXT = {"cache_dir", "host"}  # every text may be the name of a folder or host
EXPLAINED = {
    "PRICE_FEED_URLS": (
        '{"aws-spot": "ftp://hush"}',
        "HEADROOM_PRICE_FEED_URLS aws-spot: must be an http or https URL",
    ),
    "PUBLIC_URL": ("https://user:hush@x", "must be an http or https URL without a user"),
    "SNAPSHOT_CHECK_S": ("1e99", "must be at most 86,400."),
    "WORKERS": ("0", "must be at least 1."),
    "REQUEST_DEADLINE_S": ("0", "must be greater than 0."),
    "TODAY": ("2026-02-31", "must be a date, such as 2026-11-20."),
    "IDENTITY_HEADER": ("X-User", "HEADROOM_IDENTITY_HEADER: is trusted only from HEADROOM_PROXIES"),
    "TOKEN_ISSUERS": (
        '[{"issuer": "hush", "audience": "h", "jwks_url": "http://hush.example"}]',
        "HEADROOM_TOKEN_ISSUERS: must be reached by https",
    ),
    "CORS_ORIGINS": ('["hush.example"]', "HEADROOM_CORS_ORIGINS 0: must be * or an origin"),
}


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_wrong_value_is_reported_in_a_sentence_that_does_not_repeat_it(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    accepted = []
    for value in WRONG:
        monkeypatch.setenv(f"HEADROOM_{name.upper()}", value)
        try:
            load_settings()
            accepted.append(value)
        except typer.Exit as ended:
            assert ended.exit_code == Exit.FAILED
        for line in capsys.readouterr().err.splitlines():
            found = SENTENCE.fullmatch(line)
            assert found is not None and found[1] == name.upper(), line
            assert "hush" not in line.replace("hush: is unknown", "")  # the name of a field is shown, no value is
    assert len(accepted) < len(WRONG) or name in ANY_TEXT


@pytest.mark.parametrize(("name", "value", "reason"), [(name, *each) for name, each in EXPLAINED.items()])
def test_the_sentence_says_what_is_accepted(
    name: str, value: str, reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(f"HEADROOM_{name}", value)
    with pytest.raises(typer.Exit):
        load_settings()
    assert reason in capsys.readouterr().err
