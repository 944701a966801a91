"""The tokens of all hypotheses of a search, stored once for each step."""

from collections.abc import Sequence


class TokenHistory:
    """The tokens of the hypotheses of a search, without BOS.

    At each step, every hypothesis is one row of a batch. Its tokens are the tokens of its parent, which is a row of the
    step before, and one new token. So the tokens of a row are found by walking back through the parents.

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
        """The number of tokens of each hypothesis after the last step, BOS not counted."""
        return len(self.prefixes[0]) + len(self.steps)

    def append(self, parents: Sequence[int], tokens: Sequence[int]) -> None:
        """Add a step: for each hypothesis, the index of its parent (a row of the step before) and its new token."""
        self.steps.append((parents, tokens))

    def tokens(self, row: int) -> list[int]:
        """Return all tokens of the hypothesis that has the row `row` in the last step."""
        backwards = []
        for parents, tokens in reversed(self.steps):
            backwards.append(tokens[row])
            row = parents[row]
        return [*self.prefixes[row], *reversed(backwards)]
