"""The names of arguments and of options' types in help texts: TEXT for Typer's `text`, <int> for <int range>."""

from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

TYPE_NAMES = {
    "<bool>": "",
    "<int range>": "<int>",
    "<list[str]>": "<str>",
    "<list[Path]>": "<path>",
}
"""Typer's names of option types, and the names in help texts: none for a flag, no list[…] for a repeated option."""


class Verb(TyperCommand):
    """A verb (subcommand) of `regard`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return with_help_names(super().get_params(ctx), ctx)


class RegardCommand(TyperGroup):
    """The command `regard`, the group of all verbs."""

    def get_params(self, ctx: Any) -> list[Any]:
        return with_help_names(super().get_params(ctx), ctx)


def with_help_names(parameters: list[Any], ctx: Any) -> list[Any]:
    for parameter in parameters:
        if parameter.metavar is None and isinstance(parameter, TyperArgument):
            parameter.metavar = parameter.name.upper()
        elif parameter.metavar is None and isinstance(parameter, TyperOption):
            parameter.metavar = TYPE_NAMES.get(parameter.display_type(ctx))
    return parameters
