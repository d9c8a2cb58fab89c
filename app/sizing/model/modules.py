"""Names of matrices: the role of a matrix here, and the names that files and tools give it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from app.sizing.facts import build, read_toml


@dataclass(frozen=True, slots=True)
class ModuleNames:
    """Other names of the roles, and the prefixes of the parts within a layer."""

    source: str
    read: str
    roles: Mapping[str, tuple[str, ...]]
    parts: Mapping[str, tuple[str, ...]]


MODULE_NAMES = build(ModuleNames, read_toml("module_names.toml"), where="module_names.toml")


def matching_roles(name: str, roles: Iterable[str]) -> tuple[str, ...]:
    """The roles that a module name means: the role itself, else roles that end in it, else those it is another name of.

    Check: experts are parameters of their own, not modules of the MLP, and `c_proj` is the output of attention and of
    the MLP.
        >>> matching_roles("gate_proj", ("gate_proj", "experts.gate_proj", "up_proj"))
        ('gate_proj',)
        >>> matching_roles("gate_proj", ("experts.gate_proj", "experts.up_proj"))
        ('experts.gate_proj',)
        >>> matching_roles("c_proj", ("o_proj", "down_proj", "up_proj"))
        ('o_proj', 'down_proj')
    """
    roles = tuple(roles)
    if name in roles:
        return (name,)
    own = tuple(role for role in roles if role.endswith(f".{name}"))
    return own or tuple(role for role in roles if name in MODULE_NAMES.roles.get(role.rpartition(".")[2], ()))
