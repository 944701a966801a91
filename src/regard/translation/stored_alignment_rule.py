"""Reading the alignment rule in translator.json, with a check that the model has the layer and head of the rule."""

from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.translation.alignment_rule import AlignmentRule
from regard.typed_fields import check_fields


def alignment_rule_from(path: Path, config: Any, values: Any) -> AlignmentRule:
    """Return the alignment rule stored in translator.json, after checking that the model has its layer and head.

    Args:
        values: the fields of the rule; empty if an earlier version of regard wrote the folder.

    Raises:
        InputError: the values are not those of a rule, or the model does not have the layer or the head.
    """
    several_heads = hasattr(config, "n_heads")  # a Recurrent has one attention layer of one head
    n_layers, n_heads = (config.decoder_layers, config.n_heads) if several_heads else (1, 1)
    try:
        if not isinstance(values, dict):
            raise TypeError("it is not an object.")
        check_fields(AlignmentRule, values)
        rule = AlignmentRule(**values)
    except TypeError as error:
        raise InputError(f"{path} has an invalid alignment: {error}") from error
    for name, number, count in (("layer", rule.layer, n_layers), ("head", rule.head, n_heads)):
        if number is not None and not 0 <= number < count:
            raise InputError(
                f"{path} aligns words by {name} {number}, and the model has {count}, counted "
                "from 0; copy the folder again."
            )
    return rule
