"""Run a model on a text and keep who looks at whom, in every layer and head.

What is kept is what each attention step was given, so a trace of a long text is small; weights are computed when they
are looked at, and `Trace.check` holds them against what the model's own kernel returned.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from regard.attention.attend import Attended
from regard.attention.pattern import Pattern
from regard.attention.representation import type_name
from regard.errors import InputError, first_words, nearest
from regard.tracing.encoding import encode, is_causal, refuse_unread
from regard.tracing.head import Head, Place
from regard.tracing.huggingface import Recorded, installed
from regard.tracing.loading import load, name_of, tokenizer_of
from regard.tracing.tokens import Token

if TYPE_CHECKING:
    from transformers import PreTrainedModel

KINDS = ("encoder", "decoder", "cross")
"""encoder: a text looks at itself; decoder: a text looks at what came before; cross: a target looks at its source."""

Attention = Mapping[str, Mapping[int, Attended]]
"""Attention steps by kind and layer."""

ATTENTIONS = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}

NOTEBOOK_WEIGHTS = 5_000_000
"""Weights of a trace that a notebook shows at most, since its file keeps what it shows: a few megabytes."""


@dataclass(frozen=True, slots=True)
class Check:
    """How far the recomputed weights × values are from what the kernel returned.

    Attributes:
        max_error: the largest difference of any number in any layer; NaN where one is NaN.
        magnitude: the largest number that the kernel returned, to compare it with; NaN where one is NaN.
        backends: what computed the contexts.
    """

    max_error: float
    magnitude: float
    backends: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trace:
    """Who looked at whom while a model read a text.

    trace["L3H1"] is one head; trace.encoder[3] the `Pattern` of one layer, as are trace.decoder[3] and trace.cross[3].

    Attributes:
        model: the model's name.
        text, target_text: what it read; the target only for an encoder-decoder.
        source, target: their tokens; a decoder-only model has its tokens in target.
        attended: every attention step, by kind and layer.
    """

    model: str
    text: str
    target_text: str
    source: tuple[Token, ...]
    target: tuple[Token, ...]
    attended: Attention

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens of the text."""
        return self.source or self.target

    @property
    def encoder(self) -> dict[int, Pattern]:
        """The patterns of the encoder, by layer."""
        return self._patterns("encoder")

    @property
    def decoder(self) -> dict[int, Pattern]:
        """The patterns of the decoder, by layer."""
        return self._patterns("decoder")

    @property
    def cross(self) -> dict[int, Pattern]:
        """The patterns of a decoder over its encoder's output, by layer."""
        return self._patterns("cross")

    @property
    def kinds(self) -> tuple[str, ...]:
        """Which of encoder, decoder and cross there are."""
        return tuple(kind for kind in KINDS if self.attended.get(kind))

    def heads(self, kind: str | None = None) -> list[Head]:
        """Every head, layer by layer; of one kind, or of the only kind there is.

        Raises:
            InputError: there is no attention of that kind.
        """
        kind = kind or self._only_kind()
        if kind not in self.kinds:
            raise InputError(f"no attention of kind {kind!r}; this trace has {', '.join(self.kinds)}.")
        queries = self.source if kind == "encoder" else self.target
        keys = self.target if kind == "decoder" else self.source
        return [
            Head(kind, layer, head, pattern, queries, keys)
            for layer, pattern in self._patterns(kind).items()
            for head in range(pattern.n_heads)
        ]

    def __getitem__(self, name: str) -> Head:
        """One head by name: "L3H1", or "cross L3H1" where there is more than one kind.

        Raises:
            InputError: there is no such head; the message names the nearest.
            TypeError: no name.
        """
        if not isinstance(name, str):
            raise TypeError(
                f"a trace takes the name of a head, such as trace['L3H1']; got {name!r}: the pattern of a layer is "
                f"trace.{self.kinds[0]}[layer]."
            )
        *kind, wanted = name.split() or [""]
        heads = {head.name: head for head in self.heads(" ".join(kind))}
        found = heads.get(wanted.upper())
        if found is None:
            last = list(heads)[-1]
            raise InputError(
                f"no head {wanted!r}; heads are named like L3H1 and run from {next(iter(heads))} to {last}; "
                f"nearest: {', '.join(closest_heads(wanted, list(heads)))}."
            )
        return found

    def check(self) -> Check:
        """Recompute every context from its weights and values and compare with what the kernel returned."""
        steps = [step for layers in self.attended.values() for step in layers.values()]
        with torch.no_grad():
            errors = [largest(step.pattern.apply(step.pattern.value) - step.context) for step in steps]
            sizes = [largest(step.context) for step in steps]
        return Check(
            max_error=largest(torch.tensor(errors)),
            magnitude=largest(torch.tensor(sizes)),
            backends=tuple(sorted({step.backend for step in steps})),
        )

    def show(self, token: Place | None = None, head: str | None = None) -> None:
        """Print the trace in the terminal: one token's look, or the most telling one."""
        from regard.views.terminal.trace import show

        show(self, token=token, head=head)

    def html(self, path: str | Path, token: Place | None = None, head: str | None = None) -> Path:
        """Write the trace as one web page that needs no network."""
        from regard.views.page import write_page

        return write_page(self, Path(path), token=token, head=head)

    def figure(self, path: str | Path, token: Place | None = None, head: str | None = None) -> Path:
        """Write the trace as a picture: PNG, SVG or PDF, by the file's ending."""
        from regard.views.picture.trace import write_figure

        return write_figure(self, Path(path), token=token, head=head)

    def heads_figure(self, path: str | Path, layer: int | None = None, kind: str | None = None) -> Path:
        """Write the patterns of all heads of a kind side by side, or of those of one layer: PNG, SVG or PDF."""
        from regard.views.picture.heads import write_heads

        return write_heads(self, Path(path), layer, kind)

    def save(self, path: str | Path) -> Path:
        """Write the trace into one safetensors file, to look at it again without the model.

        What each attention step was given is kept to the bit; the weights that follow from it agree up to rounding.

        Raises:
            InputError: a score, mask or normaliser is not regard's own, so nobody could read it back; or the file
                cannot be written.
        """
        from regard.tracing.trace_file import write_trace

        return write_trace(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> "Trace":
        """Read a trace that `save` wrote; it is on the CPU.

        Raises:
            InputError: there is no trace in the file, it is damaged, or a newer regard wrote it.
        """
        from regard.tracing.trace_file import read_trace

        return read_trace(Path(path))

    def _patterns(self, kind: str) -> dict[int, Pattern]:
        return {layer: step.pattern for layer, step in self.attended.get(kind, {}).items()}

    def _only_kind(self) -> str:
        if len(self.kinds) != 1:
            raise InputError(f"this trace has {', '.join(self.kinds)} attention; say which, as in 'cross L0H0'.")
        return self.kinds[0]

    def _repr_html_(self) -> str:
        """The trace's page, in a frame: what a notebook shows; where that cannot be had, why not."""
        from regard.tracing.focus import focus_on
        from regard.views.page import page

        try:
            n_weights = sum(step.pattern.shape.numel() for layers in self.attended.values() for step in layers.values())
            if n_weights > NOTEBOOK_WEIGHTS:
                raise InputError(
                    f"{n_weights:,} weights, and a notebook shows at most {NOTEBOOK_WEIGHTS:,}; write a page with "
                    "trace.html(path), or trace fewer layers (layers=…)."
                )
            written = page(self, focus_on(self))
        except InputError as error:
            return f"<pre>{escape(f'{self!r}: {error}')}</pre>"
        look = "width: 100%; height: 720px; border: 0"
        return f'<iframe title="regard" sandbox="allow-scripts" style="{look}" srcdoc="{escape(written)}"></iframe>'

    def __repr__(self) -> str:
        texts = " → ".join(repr(text) for text in (self.text, self.target_text) if text)
        counts = []
        for kind in self.kinds:
            n_heads = sorted({pattern.n_heads for pattern in self._patterns(kind).values()})
            counts.append(f"{kind}={len(self.attended[kind])}x{'-'.join(map(str, n_heads))}")
        return f"Trace({texts}, model={self.model!r}, tokens={len(self.tokens)}, {', '.join(counts)})"


def trace(
    model: "PreTrainedModel | str | Path",
    text: str,
    *,
    target: str | None = None,
    tokenizer: Any = None,
    layers: Collection[int] | None = None,
    truncate: bool = False,
) -> Trace:
    """Run a Hugging Face model on a text and keep every layer's attention pattern.

    Args:
        model: a loaded model, or the name or folder of one.
        target: the text on the decoder's side; an encoder-decoder needs it, no other model takes it.
        tokenizer: None = the one that belongs to the model's name.
        layers: which layers to keep, by the model's own numbers, from 0; None = all that have attention.
        truncate: read only as much of the text as the model takes, instead of refusing.

    Raises:
        InputError: a text that is empty, not UTF-8 or longer than the model takes, a tokenizer of another vocabulary, a
            layer that is not there, a model that reads no text or whose attention cannot be seen.
        TypeError: a text that is no str, a model or a tokenizer that is none.
    """
    if tokenizer is not None and not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise TypeError(
            f"tokenizer is {type_name(tokenizer)}; it takes what AutoTokenizer.from_pretrained gives, or None for the "
            "model's own."
        )
    if isinstance(model, str | Path):
        loaded = load(str(model))
        name, model, tokenizer = loaded.name, loaded.model, tokenizer or loaded.tokenizer
    else:
        refuse_unread(model)
        name, tokenizer = name_of(model), tokenizer or tokenizer_of(model.name_or_path)
    inputs, source, tokens_target = encode(model, tokenizer, text, target, truncate)
    with installed(model) as recorded, torch.no_grad():
        outputs = run(model, inputs)
    attended = by_kind(model, outputs, recorded)
    refuse_nan(name, attended)
    seen = Trace(
        model=name,
        text=text,
        target_text=target or "",
        source=source,
        target=tokens_target,
        attended=chosen(attended, layers),
    )
    refuse_other_places(seen)
    return seen


def run(model: "PreTrainedModel", inputs: Mapping[str, torch.Tensor]) -> Any:
    """The outputs of a model that reads a text.

    Raises:
        InputError: it wants more than a text, or cannot read this one.
    """
    try:
        return model(**inputs, output_attentions=True, return_dict=True)
    except InputError:
        raise
    except Exception as error:  # a model is somebody else's program, and may want anything
        raise InputError(f"{type(model).__name__} could not read the text: {first_words(error)}.") from error


def by_kind(model: "PreTrainedModel", outputs: Any, recorded: list[Recorded]) -> Attention:
    """Every attention step by kind and layer, from the patterns that transformers put into the outputs."""
    names = dict(ATTENTIONS)
    if not model.config.is_encoder_decoder:
        names = {"decoder" if is_causal(model) else "encoder": "attentions"}
    steps = {id(step.attended.pattern): step for step in recorded}
    kinds = {kind: getattr(outputs, name, None) or () for kind, name in names.items()}
    unseen = [kind for kind, patterns in kinds.items() if not patterns or any(id(p) not in steps for p in patterns)]
    if unseen:
        raise InputError(
            f"{type(model).__name__} did not hand out its {' and '.join(unseen)} attention, so it cannot be seen."
        )
    return {kind: numbered([steps[id(p)] for p in patterns]) for kind, patterns in kinds.items()}


def numbered(steps: Sequence[Recorded]) -> dict[int, Attended]:
    """Steps by the numbers of the model's layers, of which some may have no attention; else counted from 0."""
    own = [step.layer for step in steps if step.layer is not None]
    numbers = own if len(own) == len(steps) and own == sorted(set(own)) else range(len(steps))
    return {number: step.attended for number, step in zip(numbers, steps, strict=True)}


def chosen(attended: Attention, layers: Collection[int] | None) -> Attention:
    """The steps of the layers that were asked for, of each kind that has them."""
    there = sorted({layer for steps in attended.values() for layer in steps})
    wanted = there if layers is None else layers
    if not wanted:
        raise InputError(f"no layer was asked for; name some from {min(there)} to {max(there)}, or give layers=None.")
    for layer in wanted:
        if layer not in there:
            raise no_layer(layer, there, "trace")
    return {kind: {layer: steps[layer] for layer in steps if layer in wanted} for kind, steps in attended.items()}


def no_layer(layer: int, layers: Collection[int], use: str) -> InputError:
    """What to say of a layer that is not among those there are."""
    near = min(layers, key=lambda candidate: abs(candidate - layer))
    return InputError(f"no layer {layer} to {use}: layers run from {min(layers)} to {max(layers)}; nearest: {near}.")


def largest(numbers: torch.Tensor) -> float:
    """The size of the number furthest from 0; NaN where there is one, 0 where there is no number."""
    return float(numbers.abs().max()) if numbers.numel() else 0.0


def refuse_other_places(seen: Trace) -> None:
    """Name the first layer that attends to something else than the text's tokens."""
    for kind in seen.kinds:
        for head in seen.heads(kind):
            tokens, places = (len(head.queries), len(head.keys)), tuple(head.pattern.shape[2:])
            if places != tokens:
                raise InputError(
                    f"{seen.model} attends from {places[0]} to {places[1]} places in {kind} layer {head.layer}, where "
                    f"the text has {tokens[0]} and {tokens[1]} tokens; a trace names places by their tokens. "
                    "regard.install(model) gives the patterns themselves."
                )


def refuse_nan(name: str, attended: Attention) -> None:
    """Name the first layer whose attention met a NaN."""
    for kind, steps in attended.items():
        for layer, step in steps.items():
            for part in ("query", "key", "value"):
                if bool(getattr(step.pattern, part).isnan().any()):
                    raise InputError(
                        f"{name} gives NaN in the {part} of {kind} layer {layer}; its parameters are damaged, or too "
                        "small a number type overflows: load it in float32."
                    )


def closest_heads(wanted: str, names: list[str]) -> list[str]:
    """The heads nearest to a name that is none: nearest in number if it reads like a head, else in letters."""
    match = re.fullmatch(r"L(\d+)H(\d+)", wanted.upper())
    if match is None:
        return nearest(wanted.upper(), names)
    layer, head = map(int, match.groups())
    numbers = [(int(type_name), int(b)) for type_name, b in (name[1:].split("H") for name in names)]
    order = sorted(range(len(names)), key=lambda i: (abs(numbers[i][0] - layer), abs(numbers[i][1] - head)))
    return [names[i] for i in order[:3]]
