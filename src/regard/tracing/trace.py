"""The record of a traced model: the tokens that it read, and every attention call by kind, layer and head.

A trace stores queries, keys and values, so it is small even for a long text; weights are computed when they are read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.effects.changes import Change
from regard.effects.contributions import Contributions, contributions
from regard.effects.movement import LayerStates, Movement, movement
from regard.effects.roles import RoleSums
from regard.effects.rollout import Flow, HeadMean, check_flow, rollout
from regard.errors import InputError, import_extra
from regard.tracing.files.trace_file import read_record, write_record
from regard.tracing.generation import WrittenToken, written_words
from regard.tracing.head import Head, head_named, no_states_error
from regard.tracing.media.recording import silence_as_one
from regard.tracing.merged_pattern import merged_steps, single_tokens
from regard.tracing.patterns_by_layer import (
    KINDS,
    SIDES,
    AttentionSteps,
    PatternsByLayer,
    counts_by_kind,
    missing_layer_error,
    several_kinds_error,
    several_stages_error,
)
from regard.tracing.roles import Roles, sums_of_heads
from regard.tracing.tokens.readable_tokens import Token
from regard.tracing.tokens.token_reference import TokenReference, token_position
from regard.tracing.tokens.words import words_of
from regard.tracing.watching.watched import Check, check_contexts


@dataclass(frozen=True, slots=True, eq=False, repr=False, weakref_slot=True)
class Trace:
    """The attention patterns of a model, in all layers and heads, for one text.

    trace["L3H1"] is head 1 of layer 3, a `Head`. trace.encoder[3], trace.decoder[3] or trace.cross[3] is the `Pattern`
    of all heads of layer 3.

    Arguments of several methods: `kind` is "encoder", "decoder" or "cross"; None = the only kind in the trace. `token`
    is the position or the text of a query token. A token, head or layer that the trace does not have raises InputError.

    Attributes:
        model: the model's name.
        text: the text that the model read.
        target_text: the text that the decoder of an encoder-decoder read; empty for other models.
        source: the tokens that the encoder read; empty for a decoder-only model.
        target: the tokens that the decoder read; empty for an encoder-only model.
        attended: every attention call, by kind and layer number.
        output: the model's logits [1 tokens vocabulary], or its last hidden state [1 tokens d_model], or None.
        changes: the changes to the model's attention; tokens are given by position.
        states: the vectors of all tokens in each layer, by kind and layer number; None without keep=("hidden",).
        written: the tokens that the model generated, with their probabilities; empty if it generated none.
        images: the pictures that the model read, or the frames of a video, with numbers from 0 to 1.
        spectrogram: the spectrogram that the model read; None if it read none.
        joined: if `words()` or `without_padding()` made this trace: the original trace, and the positions of its tokens
            in each word; else None.
        sources: the tokens of each encoder layer, in a model such as Swin, whose layers have different tokens; `source`
            then has the tokens that cross-attention reads, or else those of the last encoder layer in the trace.
            None = the tokens of each encoder layer are `source`.
    """

    model: str
    text: str
    target_text: str
    source: tuple[Token, ...]
    target: tuple[Token, ...]
    attended: AttentionSteps
    output: Float[Tensor, "1 tokens numbers"] | None = None
    changes: tuple[Change, ...] = ()
    states: Mapping[str, Mapping[int, LayerStates]] | None = None
    written: tuple[WrittenToken, ...] = ()
    images: tuple[Float[Tensor, "3 _ _"], ...] = ()
    spectrogram: Float[Tensor, "bands frames"] | None = None
    joined: "JoinedTokens | None" = None
    sources: Mapping[int, tuple[Token, ...]] | None = None

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens that the encoder read; in a decoder-only model, the tokens that the decoder read."""
        return self.source or self.target

    @property
    def encoder(self) -> dict[int, Pattern]:
        """The self-attention patterns of the encoder, by layer number."""
        return self._patterns("encoder")

    @property
    def decoder(self) -> dict[int, Pattern]:
        """The self-attention patterns of the decoder, by layer number."""
        return self._patterns("decoder")

    @property
    def cross(self) -> dict[int, Pattern]:
        """The attention patterns of the decoder over the encoder's output, by layer number."""
        return self._patterns("cross")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of attention in this trace, in the order "encoder", "decoder", "cross"."""
        return tuple(kind for kind in KINDS if self.attended.get(kind))

    def heads(self, kind: str | None = None) -> list[Head]:
        """Return every head of one kind of attention, layer by layer."""
        kind = kind or self._only_kind()
        if kind not in self.kinds:
            raise InputError(f"no attention of kind {kind!r}; this trace has {', '.join(self.kinds)}.")
        queries, keys = getattr(self, SIDES[kind].queries), getattr(self, SIDES[kind].keys)
        stage_tokens = (self.sources or {}) if kind == "encoder" else {}
        projections = {layer: state.projection for layer, state in (self.states or {}).get(kind, {}).items()}
        heads = []
        for layer, pattern in self._patterns(kind).items():
            layer_queries, layer_keys = stage_tokens.get(layer, queries), stage_tokens.get(layer, keys)
            for head in range(pattern.n_heads):
                heads.append(Head(kind, layer, head, pattern, layer_queries, layer_keys, projections.get(layer)))
        return heads

    def queries(self, kind: str) -> tuple[Token, ...]:
        """Return the tokens of the queries of all layers; raise InputError if the layers have different tokens."""
        if kind == "encoder" and self.sources is not None:
            raise several_stages_error(self.sources)
        return self.heads(kind)[0].queries

    def stage(self, of: int | str | None = None) -> "Trace":
        """Return one stage of a model such as Swin: a trace of the encoder layers that have the same tokens.

        `of` is the number of an encoder layer in the stage, or the name of a head; None = the last stage, which also
        has the attention of the decoder, if there is one. Views show one stage, and `rollout`, `roles`, `words` and
        `compare` need one. If all layers have the same tokens, the trace itself is returned.
        """
        if self.sources is None:
            return self
        if isinstance(of, str):
            of = self[of].layer if self[of].kind == "encoder" else None
        if of is not None and of not in self.sources:
            raise missing_layer_error(of, self.sources, "show")
        tokens = self.source if of is None else self.sources[of]
        encoder = {n: step for n, step in self.attended["encoder"].items() if self.sources[n] == tokens}
        is_last_stage = tokens == self.source
        attended = {**self.attended, "encoder": encoder} if is_last_stage else {"encoder": encoder}
        states = self.states
        if states is not None:
            states = {kind: {n: states[kind][n] for n in layers} for kind, layers in attended.items()}
        return replace(self, source=tokens, sources=None, attended=attended, states=states)

    def __getitem__(self, name: str) -> Head:
        """Return one head by its name: "L3H1", or "cross L3H1" if the trace has more than one kind of attention.

        "L3average" is the average over the heads of layer 3.
        """
        return head_named(name, self.heads, self.kinds[0])

    def check(self) -> Check:
        """Recompute every context as weights @ value, and compare it with the context from the model's kernel.

        If `words()` made this trace, the trace of tokens is checked.
        """
        if self.joined is not None:
            return self.joined.trace.check()
        return check_contexts([step for layers in self.attended.values() for step in layers.values()])

    def contributions(self, token: TokenReference, layer: int, kind: str | None = None) -> Contributions:
        """Return the vectors that the keys add to a query's token, and their norms, for each head of a layer.

        For one head, use `trace["L3H1"].contributions("it")`. The trace must have been made with keep=("hidden",).
        """
        kind = kind or self._only_kind()
        if self.states is None:
            raise no_states_error("contributions")
        pattern = self._patterns(kind)[layer]
        return contributions(pattern, self._query(token, kind), self.states[kind][layer].projection)

    def movement(self, token: TokenReference, kind: str | None = None) -> Movement:
        """Return how each layer changes the vector of a token: what each head, key token and part of the layer adds.

        The kind is "encoder" or "decoder"; for "decoder", `rest` of the result includes what cross-attention adds. The
        trace must have been made with keep=("hidden",).
        """
        kind = kind or self._only_kind()
        if self.states is None:
            raise no_states_error("movement")
        position = self._query(token, kind)  # raises InputError if there is no such kind
        return movement(self._patterns(kind), list(self.states[kind].values()), position)

    def rollout(
        self,
        token: TokenReference,
        kind: str | None = None,
        *,
        flow: Flow = HeadMean(),  # noqa: B008 (frozen)
    ) -> Float[Tensor, " tokens"]:
        """Return the attention rollout of a token: the fractions of its final vector that come from each input token.

        Args:
            kind: "encoder" or "decoder"; not "cross", whose queries and keys are different tokens.
            flow: how to compute the fractions in one layer. `HeadMean()`: one half comes from the token itself,
                the other half from its keys, by the mean weights of the heads. `VectorLengths()`: the fractions are
                proportional to the norms of the vectors that come from each token; needs keep=("hidden",).

        Source: Abnar & Zuidema 2020, section 3.
        """
        kind = kind or self._only_kind()
        if kind == "cross":
            raise InputError("a rollout needs the self-attention of one text; give kind='encoder' or kind='decoder'.")
        check_flow(flow)
        position = self._query(token, kind)
        if self.joined is None:
            if flow.needs_states and self.states is None:
                raise no_states_error(f"a rollout by {type(flow).__name__}")
            patterns = self._patterns(kind)
            states = [None if self.states is None else self.states[kind][layer] for layer in patterns]
            return rollout(list(patterns.values()), states, position, flow)
        groups = self.joined.source if kind == "encoder" else self.joined.target
        # a word as a query is the mean of its tokens, and as a key their sum
        of_word = torch.stack([self.joined.trace.rollout(i, kind, flow=flow) for i in groups[position]]).mean(dim=0)
        return torch.stack([of_word[list(group)].sum() for group in groups])

    def role_sums(self, kind: str | None = None) -> tuple[tuple[str, ...], RoleSums]:
        """Return the heads' names, and the sums of their weights on roles such as the first token; not for "cross"."""
        kind = kind or self._only_kind()
        if kind == "cross":
            raise InputError("roles compare a query with the tokens of its own text; give 'encoder' or 'decoder'.")
        tokens = self.queries(kind)
        return sums_of_heads(self._patterns(kind), [t.text for t in tokens], [t.special for t in tokens])

    def roles(self, kind: str | None = None) -> Roles:
        """Return how much each head attends to the previous token, the first token, and so on; not for "cross"."""
        names, sums = self.role_sums(kind)
        return Roles(names, sums.means())

    def words(self, *spans: str) -> "Trace":
        """Return a trace of words: the tokens of each word are joined into one, in every pattern and view.

        A word as a key has the sum of the weights on its tokens; as a query, the mean of the weights of its tokens.
        `spans` are whole words that are joined into one token each, such as "Eiffel Tower".
        """
        if self.joined is not None:
            return self.joined.trace.words(*spans)
        if self.sources is not None:
            raise several_stages_error(self.sources)
        groups, tokens = words_of((self.source, self.target), spans)
        return self._with_joined_tokens(groups, tokens)

    def without_padding(self) -> "Trace":
        """Return a trace in which the silence after a recording, which the model also reads, is one token.

        The weight on this token is the sum of the weights on its frames; as a query, it has the mean of their weights.
        The spectrogram ends with the recording. Views show this trace, unless they are called with padding=True. If
        there is no such silence, the trace itself is returned.
        """
        tokens, groups = silence_as_one(self.source)
        if len(tokens) == len(self.source):
            return self
        joined = self.joined or JoinedTokens(self, single_tokens(len(self.source)), single_tokens(len(self.target)))
        # `groups` are positions in this trace, whose tokens may be words; `source` are positions in the original trace
        source = [range(joined.source[group[0]].start, joined.source[group[-1]].stop) for group in groups]
        merged = joined.trace._with_joined_tokens((source, joined.target), (tokens, self.target))
        if self.spectrogram is None:
            return merged
        n_columns = round(self.spectrogram.shape[1] * (len(tokens) - 1) / len(self.source))  # without the silence
        return replace(merged, spectrogram=self.spectrogram[:, :n_columns])

    def _with_joined_tokens(self, groups: Sequence[Sequence[range]], tokens: Sequence[tuple[Token, ...]]) -> "Trace":
        """Return a trace in which each group of positions is one token; both arguments are pairs (source, target)."""
        source_groups, target_groups = groups
        source, target = tokens
        joined = JoinedTokens(self, tuple(source_groups), tuple(target_groups))
        attended = merged_steps(self.attended, source_groups, target_groups)
        # a model writes tokens of the target, if there is one
        written = written_words(self.written, target_groups or source_groups, target or source)
        return replace(
            self, source=source, target=target, attended=attended, states=None, written=written, joined=joined
        )

    def show(self, token: TokenReference | None = None, head: str | None = None, *, padding: bool = False) -> None:
        """Print in the terminal the weights of one query token in one head, and its largest weight in every head.

        `token` and `head` (a name such as "L3H1") None = those of the most salient weight: a large weight on a distant
        token. `padding`: show the silence after a recording frame by frame; False = as one token (`without_padding`).
        """
        from regard.views.terminal.trace import show

        show(self._shown(head, padding), token=token, head=head)

    def html(
        self, path: str | Path, token: TokenReference | None = None, head: str | None = None, *, padding: bool = False
    ) -> Path:
        """Write the trace to one HTML file that works offline; it shows the query `token` in the head `head` first.

        None = query and head of a large weight on a distant token. `padding`: also show the silence after a recording.
        """
        from regard.views.page import write_page

        return write_page(self._shown(head, padding), Path(path), token=token, head=head)

    def figure(
        self, path: str | Path, token: TokenReference | None = None, head: str | None = None, *, padding: bool = False
    ) -> Path:
        """Write a picture of the weights of one query token in one head to a file; `path` ends in .png, .svg or .pdf.

        None = query and head of a large weight on a distant token. `padding`: also show the silence after a recording.
        """
        from regard.views.picture.trace import write_figure

        return write_figure(self._shown(head, padding), Path(path), token=token, head=head)

    def heads_figure(
        self, path: str | Path, layer: int | None = None, kind: str | None = None, *, padding: bool = False
    ) -> Path:
        """Write a picture of the patterns of many heads, side by side, to a file; `path` ends in .png, .svg or .pdf.

        `layer` None = all layers; `kind` None = the trace's last kind; `padding`: show the silence in full.
        """
        from regard.views.picture.heads import write_heads

        of = layer if (kind or self.kinds[-1]) == "encoder" else None
        return write_heads(self._shown(of, padding), Path(path), layer, kind)

    def widget(self, token: TokenReference | None = None, head: str | None = None, *, padding: bool = False) -> Any:
        """Return the trace's page as a `TraceWidget` for Jupyter, whose `head` and `token` follow the reader's choices.

        `padding`: show the silence in full. InputError is raised if the trace is too large, or without anywidget.
        """
        import_extra("anywidget", "notebook")
        from regard.views.page.widget import TraceWidget

        return TraceWidget(self._shown(head, padding), token=token, head=head)

    def save(self, path: str | Path) -> Path:
        """Write the trace into one file, whose name ends in .safetensors; `load` reads it without the model.

        The tensors of each attention call are saved bit by bit; weights computed from them agree up to rounding.

        Raises:
            InputError: a score, mask or normaliser is not a class of regard, so `load` could not rebuild it; this is a
                trace of words (save the trace of tokens instead), or has an `Interchange`; or the file has another
                ending or cannot be written.
        """
        if self.joined is not None:
            raise InputError(
                "a trace of joined tokens cannot be saved; save the trace from which words() or without_padding() made "
                "it, and call them when it is loaded."
            )
        return write_record(Path(path), {part.name: getattr(self, part.name) for part in fields(self)})

    @staticmethod
    def load(path: str | Path) -> "Trace":
        """Read a trace that `save` wrote; its tensors are on the CPU.

        InputError is raised if the file has no trace, is damaged, or was written by another version of regard.
        """
        return Trace(**read_record(Path(path)))

    def _shown(self, of: int | str | None, padding: bool) -> "Trace":
        return self.stage(of) if padding else self.stage(of).without_padding()

    def _query(self, token: TokenReference, kind: str) -> int:
        return token_position(token, self.queries(kind))

    def _patterns(self, kind: str) -> dict[int, Pattern]:
        return PatternsByLayer(kind, {layer: step.pattern for layer, step in self.attended.get(kind, {}).items()})

    def _only_kind(self) -> str:
        if len(self.kinds) != 1:
            raise several_kinds_error(self.kinds)
        return self.kinds[0]

    def _repr_html_(self) -> str:
        """Return the HTML page of the trace inside an HTML frame, for a notebook."""
        from regard.views.page.notebook import notebook_frame

        return notebook_frame(self._shown(None, padding=False))

    def __repr__(self) -> str:
        beginnings = [text[:200] + "…" * (len(text) > 200) for text in (self.text, self.target_text) if text]
        texts = " → ".join(map(repr, beginnings)) + ", " * bool(beginnings)
        counts = counts_by_kind(self.attended)
        changes = f", changes={list(self.changes)}" if self.changes else ""
        changes += f", written={len(self.written)}" if self.written else ""
        return f"Trace({texts}model={self.model!r}, tokens={len(self.tokens)}, {counts}{changes})"


@dataclass(frozen=True, slots=True, eq=False)
class JoinedTokens:
    """The trace of tokens from which a trace of words was made, and the positions of the tokens of each word."""

    trace: Trace
    source: tuple[range, ...]
    target: tuple[range, ...]
