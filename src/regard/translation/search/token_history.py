"""The tokens of all hypotheses of a search, stored once for each step."""

from collections.abc import Sequence


class TokenHistory:
    """The tokens of the hypotheses of a search, without BOS; every hypothesis is a row of a batch.

    At each step, a row gets the tokens of its parent (a row of the step before) and one new token.

    Args:
        prefixes: the tokens of each row before the first step, equally many in each row.

    >>> history = TokenHistory([[7], [8]])
    >>> history.append(parents=[1, 1, 0], tokens=[5, 6, 5])
    >>> history.append(parents=[2, 0], tokens=[9, 4])
    >>> history.tokens(0), history.tokens(1), history.n_tokens
    ([7, 5, 9], [8, 5, 4], 3)
    """

    def __init__(self, prefixes: Sequence[Sequence[int]]) -> None:
        self.prefixes = prefixes
        self.steps: list[tuple[Sequence[int], Sequence[int]]] = []

    @property
    def n_tokens(self) -> int:
        """The number of tokens of each hypothesis."""
        return len(self.prefixes[0]) + len(self.steps)

    def append(self, parents: Sequence[int], tokens: Sequence[int]) -> None:
        self.steps.append((parents, tokens))

    def tokens(self, row: int) -> list[int]:
        """Return the tokens of the hypothesis in row `row` of the last step."""
        backwards = []
        for parents, tokens in reversed(self.steps):
            backwards.append(tokens[row])
            row = parents[row]
        return [*self.prefixes[row], *reversed(backwards)]
