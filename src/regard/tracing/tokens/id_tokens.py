"""`IdTokens`: the tokens of a model without a tokenizer, which is given token ids in place of a text."""

from collections.abc import Iterable, Sequence
from typing import Any


class IdTokens:
    """Replaces a missing tokenizer: it encodes no text, and the text of each token is its id, such as [17]."""

    is_fast = False
    unk_token_id = mask_token_id = None
    all_special_ids: tuple[int, ...] = ()

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[None]:
        """Return None for each id, as a tokenizer does for an unknown id; a trace shows the id in brackets instead."""
        return [None] * len(ids)

    def convert_tokens_to_string(self, pieces: Iterable[str]) -> str:
        return " ".join(pieces)

    def decode(self, ids: Any, skip_special_tokens: bool = False) -> str:
        return " ".join(f"[{number}]" for number in ids.tolist())
