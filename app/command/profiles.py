"""Profiles: named defaults for the options of all commands, from config.toml in the user's configuration folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

DEFAULT_PROFILE = "default"


def config_path() -> Path:
    """The configuration file: headroom/config.toml in $XDG_CONFIG_HOME, or in ~/.config."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "headroom" / "config.toml"


def read_profile(name: str | None) -> dict[str, Any]:
    """Options of a profile. Without a name, the profile `default`, which may be absent."""
    path = config_path()
    if not path.is_file():
        if name is None:
            return {}
        raise typer.BadParameter(f"There is no profile {name!r}: {path} does not exist.", param_hint="--profile")
    import tomllib

    try:
        profiles = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise typer.BadParameter(f"{path} cannot be read: {error}.", param_hint="--profile") from error
    found = profiles.get(name or DEFAULT_PROFILE, {} if name is None else None)
    if not isinstance(found, dict):
        tables = ", ".join(key for key, value in profiles.items() if isinstance(value, dict)) or "none"
        raise typer.BadParameter(f"{path} has no profile {name!r}. Profiles: {tables}.", param_hint="--profile")
    return found


def command_defaults(profile: Mapping[str, Any], commands: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Defaults of each command's parameters, from option names without dashes (`max-usd-per-hour`) and their values.

    Parameters:
        commands: the commands by name, as click knows them.
    """
    defaults: dict[str, dict[str, Any]] = {name: {} for name in commands}
    for option, value in profile.items():
        text = [str(each) for each in value] if isinstance(value, list) else value if value is True else str(value)
        used = False
        for name, command in commands.items():
            for parameter in command.params:
                if f"--{option}" in parameter.opts:
                    defaults[name][parameter.name] = (
                        [text] if parameter.multiple and not isinstance(text, list) else text
                    )
                    used = True
        if not used:
            raise typer.BadParameter(f"No command has the option --{option}.", param_hint=str(config_path()))
    return defaults
