"""The types of options in help texts: none for a flag; for an option that may be repeated, the type of one value."""

from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption

PLAIN_NAMES = {
    "<bool>": "",
    "<int range>": "<int>",
    "<list[str]>": "<str>",
    "<list[Path]>": "<path>",
}
"""Typer's names of types, and the names that help texts show in their place."""


class Verb(TyperCommand):
    """A verb of the command line whose help names the types of its options plainly."""

    def get_params(self, ctx: Any) -> list[Any]:
        return with_plain_types(super().get_params(ctx), ctx)


class Verbs(TyperGroup):
    """The command `regard`, whose help names the types of its options plainly."""

    def get_params(self, ctx: Any) -> list[Any]:
        return with_plain_types(super().get_params(ctx), ctx)


def with_plain_types(parameters: list[Any], ctx: Any) -> list[Any]:
    """Return the parameters of a verb; give each option the name of its type that its help is to show."""
    for parameter in parameters:
        if isinstance(parameter, TyperOption) and parameter.metavar is None:
            parameter.metavar = PLAIN_NAMES.get(parameter.display_type(ctx))
    return parameters
