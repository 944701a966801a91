"""The indirect effect of each head: how far this head alone restores what a model computes for another text.

A model reads a clean text and a corrupted one, such as the same sentence about another animal. For each head, the model
reads the corrupted text again, with the output of this head from the clean run (see `Interchange`). The metric is a
number computed from the output of the model, such as the logit of a token:

    effect = (metric - metric of the corrupted run) / (metric of the clean run - metric of the corrupted run)

0 = the head restores nothing, 1 = it restores the clean run; an effect below 0 or above 1 is possible.

Source: Vig et al. 2020, "Investigating gender bias in language models using causal mediation analysis", section 3; Meng
et al. 2022, "Locating and editing factual associations in GPT", section 2.1.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.progress import progress_callback
from regard.attention.representation import type_name
from regard.effects.changes import HeadSet
from regard.effects.interchange import Interchange
from regard.errors import InputError
from regard.tracing.model_input import read_text, with_positions
from regard.tracing.patterns_by_layer import head_name, largest_cells, layers_in_order
from regard.tracing.run import evaluating, loaded_for_text, output_of, run_model, trace
from regard.tracing.tokens.prompt import prompt_of
from regard.tracing.tokens.readable_tokens import pieces_of
from regard.tracing.tokens.token_reference import TokenReference
from regard.tracing.trace import Trace
from regard.tracing.watching.changing import changed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Metric = Callable[[Tensor], float]
"""A function from the output of a model [1 tokens numbers] (see `Trace.output`) to one number, such as a logit."""


@dataclass(frozen=True, slots=True)
class LogitDifference:
    """A metric of a language model: the logit of one next token minus the logit of another, at the end of the text.

    Attributes:
        token: the token that the model predicts after the clean (original) text: its id, or its text, such as " Paris".
        other: the token that the model predicts after the corrupted (changed) text.
    """

    token: int | str
    other: int | str

    def __call__(self, output: Float[Tensor, "1 tokens vocabulary"]) -> float:
        """Return the logit of `token` minus that of `other` at the last position; both must be ids (see `with_ids`)."""
        return float(output[0, -1, int(self.token)] - output[0, -1, int(self.other)])

    def with_ids(self, tokenizer: Any) -> "LogitDifference":
        """Return this metric with the ids of its tokens; raise InputError if a text is not one token."""

        def id_of(token: int | str) -> int:
            if isinstance(token, int):
                return token
            ids = tokenizer.encode(token, add_special_tokens=False)
            if len(ids) != 1:
                pieces = tokenizer.convert_ids_to_tokens(ids)
                raise InputError(f"{self}: {token!r} is {len(ids)} tokens here, {pieces}; give one token.")
            return int(ids[0])

        return LogitDifference(id_of(self.token), id_of(self.other))


@dataclass(frozen=True, slots=True, eq=False)
class OutputDistance:
    """A metric of any model: minus the Euclidean distance of an output from the output for the clean (original) text.

    A head has the effect 1 if it makes the output for the corrupted (changed) text equal to that for the clean text,
    and 0 if it leaves the distance as it is.
    """

    clean: Float[Tensor, "1 tokens numbers"]

    def __call__(self, output: Float[Tensor, "1 tokens numbers"]) -> float:
        if output.shape != self.clean.shape:
            shapes = [list(numbers.shape[1:]) for numbers in (self.clean, output)]
            raise InputError(
                f"the outputs of the clean run and of the corrupted run have shapes {shapes[0]} and {shapes[1]}, which "
                "have no distance; give metric=…, a function of the output."
            )
        return 0.0 - float((output.cpu().double() - self.clean.cpu().double()).norm())  # 0, not -0, for no distance

    def __repr__(self) -> str:
        return "OutputDistance()"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IndirectEffects:
    """How far each head alone restores the output for a clean (original) text, when the model reads a corrupted text.

    Attributes:
        traces: the trace of the clean text, and the trace of the corrupted text before an output is replaced.
        layers: for each row of `heads`, the kind of attention and the number of the layer, in the order in which the
            model computes the layers.
        heads: the effect of each head, 1 = the output of this head alone restores the clean run; NaN = the head was not
            tried, or the layer has no head of this number.
        metric: the metric, a function of the model's output.
        clean: the metric of the clean run.
        corrupted: the metric of the corrupted run.
    """

    traces: tuple[Trace, Trace]
    layers: tuple[tuple[str, int], ...]
    heads: Float[Tensor, "layers heads"]
    metric: Metric
    clean: float
    corrupted: float

    @property
    def texts(self) -> tuple[str, str]:
        """The clean text and the corrupted text."""
        return self.traces[0].text, self.traces[1].text

    def head_name(self, row: int, head: int) -> str:
        """Return the name of head number `head` of the layer `layers[row]`, such as "L3H1" or "cross L3H1"."""
        return head_name(self.layers, row, head)

    def largest(self, n: int = 5) -> list[tuple[str, float]]:
        """Return the names of the n heads with the largest effects, in absolute value, and their effects."""
        cells = largest_cells(self.heads.abs(), n)
        return [(self.head_name(*cell), float(self.heads[cell])) for cell in cells]

    def show(self) -> None:
        """Print the heads with the largest effects, and a grid of all heads."""
        from regard.views.terminal.indirect_effects import show

        show(self)

    def html(self, path: str | Path, token: TokenReference | None = None, head: str | None = None) -> Path:
        """Write a web page that works offline: the clean and the corrupted text, and the indirect effect of each head.

        Args:
            token: the query token of the clean text that the page shows first; None = the page chooses a token with
                a large weight on a distant token.
            head: the head that the page shows first, such as "L3H1"; None = the head with the largest effect.
        """
        from regard.views.page.indirect_effects import write_page

        return write_page(self, Path(path), token=token, head=head)

    def figure(self, path: str | Path) -> Path:
        """Write a picture of the effects of all heads to a file; `path` ends in .png, .svg or .pdf."""
        from regard.views.picture.indirect_effects import write_figure

        return write_figure(self, Path(path))

    def _repr_png_(self) -> bytes:
        """Return the picture of the effects, for a notebook."""
        from regard.views.picture.canvas import rendered
        from regard.views.picture.indirect_effects import effects_figure

        return rendered(effects_figure(self))

    def __repr__(self) -> str:
        largest = ", ".join(f"{name}={effect:.3g}" for name, effect in self.largest(3))
        return f"IndirectEffects({' | '.join(map(repr, self.texts))}, model={self.traces[1].model!r}, {largest})"


def indirect_effects(
    model: "PreTrainedModel | str | Path",
    text: "str | Sequence[Mapping[str, Any]] | Sequence[int] | Tensor",
    clean: Trace,
    *,
    target: str | None = None,
    tokenizer: Any = None,
    heads: Collection[str] | None = None,
    tokens: int | str | Collection[int | str] | Mapping[int | str, int | str] | None = None,
    metric: Metric | None = None,
) -> IndirectEffects:
    """Return how far each head alone restores the output for a clean text, when the model reads a corrupted text.

    The model reads the corrupted text once for each head, with the output of the head from the clean run; progress is
    shown after two seconds. This is activation patching of each head, also called causal tracing.

    Args:
        model, text, target, tokenizer: the model and the corrupted text, as in `regard.trace`.
        clean: the trace of the clean text by the same model.
        heads: the names of the heads to try, as in `Cut`: "L3H1", "L3", "cross", "cross L3"; None = all heads.
        tokens: the tokens whose outputs are replaced, as in `Interchange`; None = all tokens.
        metric: a function from the output of the model [1 tokens numbers] to a number. None = for a model that can
            generate text, the `LogitDifference` of two tokens: the most probable next token of the clean run, and that
            of the corrupted run. For other models, minus the distance of the output from that of the clean run.

    Raises:
        InputError: the metric is the same in both runs; no head has such a name; or an `Interchange` of the two runs is
            not possible, as when the texts have different numbers of tokens and `tokens` is None.
        TypeError: `clean` is not a trace, or `heads` is one name in place of a list.

    >>> import regard
    >>> clean = regard.trace("MiniLM", "The snake is dangerous.")
    >>> regard.indirect_effects("MiniLM", "The horse is dangerous.", clean, heads=["L0"]).heads.shape
    torch.Size([6, 12])
    """
    if not isinstance(clean, Trace):
        raise TypeError(
            f"clean is {type_name(clean)}; it takes the trace of the clean text: regard.trace(model, text)."
        )
    if isinstance(heads, str):
        raise TypeError(f"heads={heads!r} is not a list of heads; give heads=[{heads!r}].")
    loaded = loaded_for_text(model, text, target, tokenizer)
    model, tokenizer = loaded.model, loaded.tokenizer
    corrupted = trace(model, text, target=target, tokenizer=tokenizer)
    if clean.output is None or corrupted.output is None:
        raise InputError(f"{loaded.name} returns neither logits nor a hidden state, so there is no output to restore.")
    if metric is None:
        metric = default_metric(model, tokenizer, clean.output, corrupted.output)
    elif isinstance(metric, LogitDifference):
        metric = metric.with_ids(tokenizer)
    clean_metric, corrupted_metric = (float(metric(output)) for output in (clean.output, corrupted.output))
    difference = clean_metric - corrupted_metric
    if not difference:
        raise InputError(f"the metric is {clean_metric:g} in both runs, so there is no difference to restore.")
    layers = layers_in_order(corrupted.attended)
    head_counts = [corrupted.attended[kind][layer].pattern.n_heads for kind, layer in layers]
    cells = cells_of(layers, head_counts, heads)
    effects = torch.full((len(layers), max(head_counts)), torch.nan, dtype=torch.float64)
    with evaluating(model), progress_callback() as report:
        prompt = prompt_of(tokenizer, text, generates=False)
        model_input = read_text(model, tokenizer, prompt, target, truncate=False, generates=False, changes=())
        for n_done, (row, head) in enumerate(cells, start=1):
            kind, layer = layers[row]
            change = Interchange(f"{kind} L{layer}H{head}", clean, tokens)
            # the tokens of the change as positions, since the model's own calls have no texts
            positioned = with_positions(change, model, model_input.source, model_input.target)
            with changed(model, [positioned]):
                output = output_of(run_model(model, model_input.inputs))
            assert output is not None
            effects[row, head] = (float(metric(output)) - corrupted_metric) / difference
            report(n_done, len(cells))
    return IndirectEffects((clean, corrupted), tuple(layers), effects, metric, clean_metric, corrupted_metric)


def cells_of(
    layers: Sequence[tuple[str, int]], head_counts: Sequence[int], heads: Collection[str] | None
) -> list[tuple[int, int]]:
    """Return the heads that `heads` names (None = all heads), each as a cell: its index in `layers`, and its number.

    `head_counts` has the number of heads of each layer.
    """
    cells = [(row, head) for row, n_heads in enumerate(head_counts) for head in range(n_heads)]
    if heads is None:
        return cells
    named_cells = []
    for name in heads:
        named = HeadSet.of(name)
        rows_of_name = [row for row, (kind, layer) in enumerate(layers) if named.has_heads_in(kind, layer)]
        cells_of_name = [(row, head) for row, head in cells if row in rows_of_name and named.head in (None, head)]
        if not cells_of_name:
            kind, layer = layers[-1]
            raise InputError(
                f"no heads {name!r} in this model; its last layer is {kind} L{layer} of {head_counts[-1]} heads."
            )
        named_cells += cells_of_name
    return list(dict.fromkeys(named_cells))


def default_metric(model: "PreTrainedModel", tokenizer: Any, clean: Tensor, corrupted: Tensor) -> Metric:
    if not model.can_generate():
        return OutputDistance(clean)
    best = [int(output[0, -1].argmax()) for output in (clean, corrupted)]
    if best[0] == best[1]:
        (piece,) = pieces_of(tokenizer, best[:1], as_target=True)
        raise InputError(
            f"both runs predict the token {piece!r}, id {best[0]}; name the tokens whose logits are to be compared: "
            "metric=LogitDifference(token, other)."
        )
    return LogitDifference(*best)
