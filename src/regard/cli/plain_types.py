"""The names of options' types in help texts, shorter than Typer's.

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
"""The names in help texts, by Typer's names of the types."""


class Verb(TyperCommand):
    """A verb (subcommand) of `regard`, whose help has the names in `PLAIN_NAMES`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return with_plain_types(super().get_params(ctx), ctx)


class Verbs(TyperGroup):
    """The command `regard`, whose help has the names in `PLAIN_NAMES`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return with_plain_types(super().get_params(ctx), ctx)


def with_plain_types(parameters: list[Any], ctx: Any) -> list[Any]:
    for parameter in parameters:
        if isinstance(parameter, TyperOption) and parameter.metavar is None:
            parameter.metavar = PLAIN_NAMES.get(parameter.display_type(ctx))
    return parameters
