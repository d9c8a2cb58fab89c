"""What filters of lists mean: names however people write them, as the values that rows hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from app.api.naming import listed
from app.catalog.directory import WILD, Directory, close_to, machine_key, run_together
from app.catalog.lists import held
from app.catalog.names import engine_slug, quoted
from app.errors import UnknownName

Values = tuple[str, ...]


def values_of(
    session: Session, what: str, filters: Mapping[str, str | None], directory: Directory
) -> dict[str, Values]:
    """Of each filter that is given the values it means; UnknownName for one that no row could have."""
    return {
        name: _value_of(session, what, name, typed, directory) for name, typed in filters.items() if typed is not None
    }


def _value_of(session: Session, what: str, name: str, typed: str, directory: Directory) -> Values:
    if name == "accelerator":
        found = directory.matching(typed) if WILD.search(typed) else directory.named(typed).accelerators
        close = () if found else directory.nearest(typed)
        known: Sequence[str] = ()
    else:
        known = held(session, what, name)
        found = meant(name, typed, known, directory)
        close = () if found else close_to(typed, known)
    if not found:
        told = f"Nearest: {', '.join(close)}." if close else f"There are {listed(known)}." if known else ""
        detail = f"No {name.replace('_', ' ')} of this list is called {quoted(typed)}. {told}".rstrip()
        raise UnknownName(detail, errors=[{"pointer": f"query/{name}", "detail": detail}], nearest=list(close))
    return found


def meant(name: str, typed: str, known: Sequence[str], directory: Directory) -> Values:
    """Which of the values of a column a name means: itself, in another spelling, by what it is called as well.

    Check: "Reserved 1Y" means reserved_1y, "Amazon" as a provider aws, "trt-llm" as an engine tensorrt-llm.
    """
    if typed in known:
        return (typed,)
    if name == "region" and (regions := directory.regions_named(typed)):
        return regions
    also = {"provider": directory.providers, "vendor": directory.vendors}.get(name, {})
    aliased = engine_slug(typed) if name == "engine" else also.get(run_together(typed), typed)
    key = machine_key if name == "instance_type" else run_together
    return tuple(value for value in known if key(value) == key(aliased)) if key(aliased) else ()
