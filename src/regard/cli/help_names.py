"""Names in help texts that differ from Typer's: TEXT for the argument `text`, <int> for the option type <int range>."""

from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

TYPE_NAMES = {
    "<bool>": "",
    "<int range>": "<int>",
    "<list[str]>": "<str>",
    "<list[Path]>": "<path>",
}
"""The names of option types in help texts, by Typer's names. A flag has no name; <list[str]> becomes <str>."""


class Verb(TyperCommand):
    """A verb (subcommand) of `regard`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return with_help_names(super().get_params(ctx), ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            if getattr(error, "ctx", None) is None:  # the parser does not know the verb, which the message names
                vars(error)["ctx"] = ctx
            raise


class RegardCommand(TyperGroup):
    """The command `regard`, the group of all verbs."""

    def get_params(self, ctx: Any) -> list[Any]:
        return with_help_names(super().get_params(ctx), ctx)


def with_help_names(parameters: list[Any], ctx: Any) -> list[Any]:
    for parameter in parameters:
        if parameter.metavar is None and isinstance(parameter, TyperArgument):
            parameter.metavar = parameter.name.upper()
        elif parameter.metavar is None and isinstance(parameter, TyperOption):
            parameter.metavar = TYPE_NAMES.get(parameter.display_type(ctx))  # None = Typer's own name
    return parameters
