"""Tables of what heads attend to, called their roles: the previous token, the first token, and so on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.effects.roles import KEY_ROLES, ROLES, RoleSums, role_sums
from regard.errors import InputError, nearest


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Roles:
    """A table of the roles of heads: how much each head attends to the previous token, the first token, and so on.

    Attributes:
        heads: the name of each head, such as "L3H1".
        means: for each role and head, the mean weight on keys of the role, over the queries that may attend to such a
            key; for "distance" and "entropy", the mean over all queries. NaN if there is no such query.
    """

    heads: tuple[str, ...]
    means: Float[Tensor, "roles heads"]

    @property
    def columns(self) -> dict[str, list[object]]:
        """The table as {column: values}, for pandas or pyarrow; the columns are "head" and roles such as "previous"."""
        return {"head": list(self.heads)} | {role: self[role].tolist() for role in ROLES}

    def __getitem__(self, role: str) -> Float[Tensor, " heads"]:
        """Return, for each head, the mean of one role, such as the weight on the previous token."""
        if role not in ROLES:
            raise InputError(f"no role {role!r}; nearest: {', '.join(nearest(role, list(ROLES)))}.")
        return self.means[ROLES.index(role)]

    def top(self, role: str, n: int = 3) -> list[tuple[str, float]]:
        """Return the names of the n heads with the largest values of a role, and these values, largest first.

        Heads with the value 0 are left out: in a causal model, for example, no head attends to the next token.
        """
        numbers = self[role].nan_to_num(0.0)
        order = numbers.sort(descending=True, stable=True).indices[:n].tolist()
        return [(self.heads[head], float(numbers[head])) for head in order if numbers[head] > 0]

    def role(self, head: str) -> str:
        """Return the role, such as "previous", whose value for a head is furthest above the mean of all heads.

        The mean is subtracted because most heads attend to the first token: without it, nearly every head would have
        the role "first".
        """
        if head not in self.heads:
            raise InputError(f"no head {head!r}; nearest: {', '.join(nearest(head, list(self.heads)))}.")
        shares = self.means[: len(KEY_ROLES)]  # without the last two rows, "distance" and "entropy", which are no roles
        above_average = shares[:, self.heads.index(head)] - shares.nanmean(dim=1)
        return KEY_ROLES[int(above_average.nan_to_num(-1.0).argmax())]

    def __repr__(self) -> str:
        best = ", ".join(f"{role}={self.top(role, 1)[0][0]}" for role in KEY_ROLES if self.top(role, 1))
        return f"Roles(heads={len(self.heads)}, {best})"


def sums_of_heads(
    patterns: Mapping[int, Pattern], texts: Sequence[str], special: Sequence[bool]
) -> tuple[tuple[str, ...], RoleSums]:
    """Return the names of all heads, and their sums of weights on the previous token, the first token, and so on.

    `texts` and `special` have, for each token of the text, its letters and whether it is a special token.
    """
    layers = [(layer, role_sums(pattern, texts, special)) for layer, pattern in patterns.items()]
    names = tuple(f"L{layer}H{head}" for layer, of_layer in layers for head in range(of_layer.sums.shape[1]))
    sums = torch.cat([of_layer.sums for _, of_layer in layers], dim=1)
    return names, RoleSums(sums, torch.cat([of_layer.n_queries for _, of_layer in layers], dim=1))
