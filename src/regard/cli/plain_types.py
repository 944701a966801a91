"""The names of options' types in help texts, shorter than Typer's names.

A flag has no name of a type. An option that may be given several times has the name of the type of one value.
"""

from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption

PLAIN_NAMES = {
    "<bool>": "",
    "<int range>": "<int>",
    "<list[str]>": "<str>",
    "<list[Path]>": "<path>",
}
"""For some of Typer's names of types, the names that help texts show instead."""


class Verb(TyperCommand):
    """A verb (subcommand) of `regard`, whose help gives the types of options short names (see `PLAIN_NAMES`)."""

    def get_params(self, ctx: Any) -> list[Any]:
        return with_plain_types(super().get_params(ctx), ctx)


class Verbs(TyperGroup):
    """The command `regard`, whose help gives the types of options short names (see `PLAIN_NAMES`)."""

    def get_params(self, ctx: Any) -> list[Any]:
        return with_plain_types(super().get_params(ctx), ctx)


def with_plain_types(parameters: list[Any], ctx: Any) -> list[Any]:
    """Set, for each option of a command, the type name that the help shows; return the parameters of the command."""
    for parameter in parameters:
        if isinstance(parameter, TyperOption) and parameter.metavar is None:
            parameter.metavar = PLAIN_NAMES.get(parameter.display_type(ctx))
    return parameters
