"""Alignment rules: how words are aligned, either by attention weights or by leaving out each source word in turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.errors import InputError
from regard.typed_fields import check_fields

LEAST_AGREEMENT = 0.5
"""If the best rule's `agreement` is lower, words are aligned by leaving out source words, not by attention weights."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AlignmentRule:
    """A rule for word alignments: by cross-attention weights of one layer, or by leaving out each source word in turn.

    Attributes:
        layer: the decoder layer, from 0; -1 = the last (not in translator.json); None = the last but one or only layer.
        head: the head, counted from 0; None = the mean over the layer's heads.
        step: the decoder step whose weights are used for a target piece: "predicts" = the step that predicts the piece;
            "reads" = the next step, which reads the piece as its input.
        agreement: the fraction of target pieces that the rule aligns with the source word whose removal lowers the
            piece's probability most; None = not measured.
        by: "attention" = words are aligned by attention weights; "erasure" = by leaving out source words.
    """

    layer: int | None = None
    head: int | None = None
    step: Literal["predicts", "reads"] = "predicts"
    agreement: float | None = None
    by: Literal["attention", "erasure"] = "attention"

    def weights(
        self, cross: tuple[Pattern, ...], lengths: Sequence[int] | None = None
    ) -> Float[Tensor, "batch target source"]:
        """Return the attention weights of each target piece on the source pieces, at this rule's layer, head and step.

        No decoder step reads EOS: with step="reads", EOS gets the weights of the step that predicts it.

        Args:
            cross: for each decoder layer, the cross-attention weights of all heads.
            lengths: the number of target pieces of each sentence, EOS included; None = no sentence is padded.

        Raises:
            ValueError: the layer or the head does not exist.
        """
        pattern = cross[self.layer_among(len(cross))]
        if self.head is not None and not 0 <= self.head < pattern.n_heads:
            raise ValueError(f"head={self.head} does not exist; the layer has {pattern.n_heads} heads, counted from 0.")
        all_heads = pattern.dense()  # [batch heads target source]
        weights = all_heads.mean(dim=1) if self.head is None else all_heads[:, self.head]
        if self.step == "predicts":
            return weights
        n_batch, n_steps, _n_source = weights.shape
        last_step = torch.tensor(lengths or [n_steps] * n_batch, device=weights.device) - 1
        next_step = torch.minimum(torch.arange(1, n_steps + 1, device=weights.device), last_step[:, None])
        # piece i gets the weights of step i + 1, the last piece (EOS) keeps its own
        return weights.gather(1, next_step[:, :, None].expand_as(weights))

    def layer_among(self, n_layers: int) -> int:
        """Return the index of this rule's layer among `n_layers` decoder layers; raise ValueError if there is none."""
        if self.layer is None:
            return max(n_layers - 2, 0)
        if not -n_layers <= self.layer < n_layers:
            raise ValueError(f"layer={self.layer} does not exist; the model has {n_layers} layers, counted from 0.")
        return self.layer % n_layers

    @property
    def reliable(self) -> bool:
        """False if the rule aligns by attention weights and its measured `agreement` is below `LEAST_AGREEMENT`."""
        return self.by == "erasure" or self.agreement is None or self.agreement >= LEAST_AGREEMENT

    @property
    def source(self) -> str:
        """The origin of the weights in words, such as "layer 2, head 5, the step that predicts the piece"."""
        if self.by == "erasure":
            return "the loss of probability without each source word, not attention"
        layer = "the last layer but one (or the only one)" if self.layer is None else f"layer {self.layer}"
        head = "mean over heads" if self.head is None else f"head {self.head}"
        return f"{layer}, {head}, the step that {self.step} the piece"

    @property
    def caption(self) -> str:
        """The origin of the weights, for the caption of a picture, such as "cross-attention, layer 2, head 5"."""
        if self.by == "erasure":
            return self.source
        return f"cross-attention, {self.source}{'' if self.reliable else '; unreliable'}"

    def __str__(self) -> str:
        """Return the rule as a phrase for messages; for a rule by attention, also the measured `agreement` in %.

        >>> print(AlignmentRule(layer=2, head=5))
        layer 2, head 5, the step that predicts the piece
        """
        if self.agreement is None or self.by == "erasure":
            return self.source
        measured = f"{100 * self.agreement:.0f} % of the target pieces measured have their largest weight on"
        unreliable = "" if self.reliable else "; the alignments are unreliable"
        return f"{self.source}; {measured} the source word without which the model predicts the piece worst{unreliable}"


def alignment_rule_from(path: Path, config: Any, values: Any) -> AlignmentRule:
    """Return the alignment rule in translator.json; raise InputError if it is not valid or does not fit the model.

    Args:
        path: the path of translator.json, for messages.
        config: the config of the translator's model, a Transformer or a Recurrent.
        values: the fields of the rule; empty (the default rule) in a folder that an earlier version of regard wrote.
    """
    is_transformer = hasattr(config, "n_heads")  # a Recurrent has one attention layer with one head
    n_layers, n_heads = (config.decoder_layers, config.n_heads) if is_transformer else (1, 1)
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
