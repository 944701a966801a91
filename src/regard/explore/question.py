"""A request to the explorer: a text to read, tokens to generate after it, and changes to attention heads."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from regard.effects.changes import Change, Cut, Sharpen, Silence
from regard.errors import InputError
from regard.typed_fields import check_fields

MOST_LETTERS = 200_000

MOST_NEW_TOKENS = 512
"""The largest number of tokens that a model generates for one request, and that a continuation may have."""

MOST_CHANGES = 1_000

CHANGES: dict[str, type[Change]] = {"cut": Cut, "silence": Silence, "sharpen": Sharpen}
"""The classes of changes, by the value of "kind" in the JSON of a change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request to the explorer: the text and model, and the choices for tokens that the model generates.

    Attributes:
        model: the name of a Hugging Face model or its folder; None = the model in memory.
        truncate: read only the beginning of a text that is too long; False = refuse such a text.
        target: the text that the decoder of an encoder-decoder model reads; None = the decoder gets no text.
        new_tokens: the largest number of tokens that the model generates after the text; None = it generates nothing.
        temperature: the temperature at which the new tokens are sampled; 0 = each new token is the most probable one.
            None = as the model's generation_config says.
        nucleus: new tokens are sampled only from the most probable tokens whose probabilities together reach this
            number, above 0 and at most 1 (top-p sampling).
        continuation: the ids of tokens that a causal language model reads after the text, before it generates tokens.
        changes: changes to attention heads, as decoded JSON such as
            {"kind": "cut", "query": 7, "key": 2, "heads": ["L3H1"]}.
    """

    text: str
    model: str | None = None
    truncate: bool = False
    target: str | None = None
    new_tokens: int | None = None
    temperature: float | None = None
    nucleus: float = 1.0
    continuation: tuple[int, ...] = ()
    changes: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if len(self.text) > MOST_LETTERS:
            raise InputError(f"the text has {len(self.text):,} letters; the explorer reads at most {MOST_LETTERS:,}.")
        if self.new_tokens is not None and not 1 <= self.new_tokens <= MOST_NEW_TOKENS:
            raise InputError(f"new_tokens={self.new_tokens} must be from 1 to {MOST_NEW_TOKENS}.")
        if self.temperature is not None and not 0 <= self.temperature < math.inf:
            raise InputError(f"temperature={self.temperature} must be a finite number from 0.")
        if not 0 < self.nucleus <= 1:
            raise InputError(f"nucleus={self.nucleus} must be above 0 and at most 1.")
        if len(self.continuation) > MOST_NEW_TOKENS:
            raise InputError(
                f"a text is continued by at most {MOST_NEW_TOKENS} tokens; this one by {len(self.continuation):,}."
            )
        if len(self.changes) > MOST_CHANGES:
            raise InputError(f"a request has at most {MOST_CHANGES:,} changes; this one has {len(self.changes):,}.")

    @classmethod
    def of(cls, content: object) -> "Question":
        """Check the decoded JSON of a request, and return it as a Question."""
        if not isinstance(content, Mapping):
            raise InputError('the request must be a JSON object, such as {"text": "It rains."}.')
        names = [field.name for field in fields(cls)]
        unknown = set(content) - set(names)
        if unknown or "text" not in content:
            wrong = f"unknown {', '.join(sorted(map(repr, unknown)))}" if unknown else "no 'text'"
            optional = ", ".join(repr(name) for name in names if name != "text")
            raise InputError(f"the request has {wrong}; it must have 'text', and may have {optional}.")
        try:
            check_fields(cls, content)
        except TypeError as error:
            raise InputError(f"in the request, {error}") from error
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in content.items()
        }
        for name in {"temperature", "nucleus"} & values.keys():  # JSON may hold whole numbers
            values[name] = None if values[name] is None else float(values[name])
        return cls(**values)

    def change_objects(self) -> list[Change]:
        return [change_of(content) for content in self.changes]


def change_of(content: object) -> Change:
    # "kind" may be a list, which cannot be looked up in a dict
    if not isinstance(content, Mapping) or content.get("kind") not in list(CHANGES):
        raise InputError(
            f"a change must be an object whose 'kind' is one of {', '.join(CHANGES)}; got {content!r:.100}."
        )
    values = {name: value for name, value in content.items() if name != "kind"}
    try:
        change_class = CHANGES[content["kind"]]
        check_fields(change_class, values)
        return change_class(**values)
    except (TypeError, ValueError) as error:
        raise InputError(f"in the change {content['kind']!r}, {error}") from error
