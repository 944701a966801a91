"""Changes the attention of a model while it runs: `regard.changed`, and the argument `changes` of `regard.trace`.

A `TorchFunctionMode` receives every call of `regard.attend` and of F.scaled_dot_product_attention. In the layers of a
change, `regard.attend` computes the call with a changed score and mask; an `Interchange` then replaces outputs of
heads. Other layers are unchanged.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

from regard.attention.ask import Ask
from regard.attention.attend import Attended, attend
from regard.attention.call import Call
from regard.attention.representation import type_name
from regard.effects.changes import Change, Cut, HeadSet, changed_call, check_list_of_changes, heads_of, named_tokens
from regard.effects.interchange import Interchange, interchanged
from regard.errors import InputError
from regard.tracing.watching.attention_kind import KindOfPath
from regard.tracing.watching.four_axes import from_four_axes
from regard.tracing.watching.multi_head_forward import multi_head_attention_forward
from regard.tracing.watching.running_modules import RunningModules, layer_of, running_modules
from regard.tracing.watching.sdpa_call import CHANGED, output_shape, sdpa_call


@contextmanager
def changed(model: nn.Module, changes: Sequence[Change]) -> Iterator[None]:
    """Change what the heads of a model attend to, inside a `with` block; afterwards the model is as before.

    The model must compute its attention by F.scaled_dot_product_attention, by nn.MultiheadAttention without
    need_weights, as in torch's encoder and decoder layers, by the attention interface of transformers (after
    `regard.install`), or by `attend`. Layers that no change names are unchanged.

    Args:
        changes: `Cut`, `Silence`, `Sharpen` and `Interchange` objects. The tokens of a `Cut` or `Interchange` must be
            positions in the whole text, also while a model generates token by token; padding on the left counts. A
            change is made in every item of a batch.

    Raises:
        TypeError: `model` is not a module, or a change is of another type.
        InputError: a token of a change is given by its text, or a change names no head of the model; or, at the end of
            the block, a change was not applied to any attention call.

    >>> import torch, regard
    >>> layer = torch.nn.TransformerEncoderLayer(16, 2, batch_first=True).eval()
    >>> x = torch.randn(1, 5, 16)
    >>> with regard.changed(layer, [regard.Silence("L0H1")]), regard.watching(layer) as watched:
    ...     output = layer(x)
    >>> watched.steps[0].attended.context[0, 1].abs().max()
    tensor(0., grad_fn=<MaxBackward1>)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"changed takes a torch.nn.Module; got {type_name(model)}.")
    check_list_of_changes(changes)
    if not changes:
        yield
        return
    kind_of = KindOfPath.of(model)
    for change in changes:
        check_change(change, kind_of.only_kind)
    changer = AttentionChanger(changes, kind_of)
    with running_modules(model, changer.enter) as running:
        changer.running = running
        with changer:
            yield
    changer.check_all_applied()


def check_change(change: Change, only_kind: str | None) -> None:
    """Raise an error if `change` is no change, names tokens by text and not by position, or heads without their kind.

    `only_kind` is the model's only kind of attention ("encoder" or "decoder"); None = the model has several kinds.
    """
    if not isinstance(change, Change):
        raise TypeError(f"{change!r} is not a change; give Cut, Silence, Sharpen or Interchange objects.")
    tokens = named_tokens(change)
    if not all(isinstance(token, int) for token in tokens):
        raise InputError(
            f"{change} names a token by its text, and regard.changed has no text to find it in; give the token's "
            "position."
        )
    heads = heads_of(change)
    if any(int(token) < 0 for token in tokens):
        raise InputError(f"{change} has a negative position; positions are counted from 0.")
    if only_kind is None and any(one.kind is None for one in heads):
        raise InputError(
            f"{change} must name the kind of its heads, since the model has several: 'encoder L0H1', "
            "'decoder L0H1', 'cross L0H1', or 'cross' alone for all heads of cross-attention."
        )


class AttentionChanger(TorchFunctionMode):
    """Changes the attention of the modules that are running, inside a `with` block.

    Attributes:
        kind_of: returns the kind of attention ("encoder", "decoder" or "cross") of the module at a path.
        applied: the changes that were applied to an attention call so far.
        layers: for each kind of attention, the numbers of the layers that have computed attention so far.
        called: the kind and number of each layer whose attention was changed in the current forward pass.
        n_cached: the number of tokens in the cache of the decoder before the current forward pass; None = no cache.
        first_query: the position in the text of the first query of the latest self-attention call; the queries of
            cross-attention have the same positions.
    """

    def __init__(self, changes: Sequence[Change], kind_of: Callable[[str], str]) -> None:
        super().__init__()
        self.changes, self.kind_of, self.running = changes, kind_of, RunningModules()
        self.applied: list[Change] = []
        self.layers: dict[str, set[int]] = {}
        self.called: set[tuple[str, int]] = set()
        self.n_cached: int | None = None
        self.first_query = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():  # attention that torch.compile traces is left unchanged
            return func(*args, **kwargs)
        if func is F.multi_head_attention_forward:
            with self:  # inside this method, the mode is off; here it is to see each operation of the copy
                return multi_head_attention_forward(*args, **kwargs)
        if func is attend:  # `attend` passes all of its keyword arguments to this method
            call = Call.of(*args, **{name: kwargs[name] for name in ("score", "mask", "normalise")})
            attended = self.attend_changed(call, kwargs["dropout"], kwargs["ask"])
            return func(*args, **kwargs) if attended is None else attended
        if func is F.scaled_dot_product_attention:
            call, dropout = sdpa_call(self.running.head_counts, *args, **kwargs)
            attended = self.attend_changed(call, dropout, None)
            if attended is not None:
                shape = output_shape(*args, **kwargs)
                context = from_four_axes(attended.context, shape, self.running.head_counts.query_heads)
                CHANGED[context] = attended  # `Recorder` finds the changed call here, by its context
                return context
        return func(*args, **kwargs)

    def attend_changed(self, call: Call, dropout: float, ask: Ask | None) -> Attended | None:
        """Compute an attention call with the changes for its layer; None if no change is for this layer."""
        path = self.running.path
        kind, layer = self.kind_of(path), layer_of(path) or 0  # a module whose path has no number counts as layer 0
        self.layers.setdefault(kind, set()).add(layer)
        first_key = 0
        if kind != "cross":
            # A cache of a sliding window has fewer keys than the text has tokens: those of the last tokens. A static
            # cache may have more keys: then the first key is that of the first token.
            n_cached = self.n_cached if kind == "decoder" else None
            self.first_query = call.grid.offset if n_cached is None else n_cached
            first_key = max(0, self.first_query + call.grid.queries - call.grid.keys)
        for_layer = [
            change for change in self.changes if any(heads.has_heads_in(kind, layer) for heads in heads_of(change))
        ]
        if not for_layer:
            return None
        if (kind, layer) in self.called:
            raise InputError(
                f"{for_layer[0]} is ambiguous: {path} is not the only attention in {kind} layer {layer} of a forward "
                "pass, so a change to that layer would change several attention calls. If a module calls its model "
                "several times, give changed the inner model."
            )
        self.called.add((kind, layer))
        n_tokens = self.first_query + call.grid.queries
        for change in for_layer:
            edge_exists = not isinstance(change, Cut) or has_edge(call, change, self.first_query, first_key)
            tokens_exist = not isinstance(change, Interchange) or change.last_token(n_tokens) < n_tokens
            if edge_exists and tokens_exist:
                self.applied.append(change)
        call = changed_call(call, for_layer, kind, layer, self.first_query, first_key)
        rules: dict[str, Any] = {"score": call.score, "mask": call.mask, "normalise": call.normalise}
        attended = attend(call.query, call.key, call.value, **rules, dropout=dropout, ask=ask)
        numbers_and_interchanges = [
            (HeadSet.of(change.head).head, change) for change in for_layer if isinstance(change, Interchange)
        ]
        return interchanged(attended, numbers_and_interchanges, kind, layer, self.first_query)

    def enter(self, n_running: int, arguments: Mapping[str, Any]) -> None:
        """Begin a forward pass if the module that starts is the only running module: the model itself.

        `arguments` are the keyword arguments of the module, among them the cache of a model of transformers.
        """
        if n_running == 1:
            check_not_checkpointed(self.running.stack[-1][1])
            self.called.clear()
            self.n_cached = None
        if self.n_cached is None:  # a model inside a wrapper, or called without keywords, hands its cache on by keyword
            get_length = getattr(arguments.get("past_key_values"), "get_seq_length", None)
            self.n_cached = None if get_length is None else int(get_length())

    def check_all_applied(self) -> None:
        not_applied = next((change for change in self.changes if change not in self.applied), None)
        if not_applied is None:
            return
        if not self.layers:
            raise InputError(
                f"{not_applied} changed nothing: no call of F.scaled_dot_product_attention or attend was seen; run the "
                "model inside the block. If it ran there, let its attention call one of these functions: in a model of "
                "transformers by regard.install(model) or attn_implementation='sdpa', in nn.MultiheadAttention by "
                "need_weights=False. Attention of other calls, as in GPT-J, BLOOM and DeBERTa, cannot be changed."
            )
        layers = [(kind, layer) for kind, numbers in self.layers.items() for layer in numbers]
        if any(heads.has_heads_in(kind, layer) for heads in heads_of(not_applied) for kind, layer in layers):
            reason = "let this query attend to this key" if isinstance(not_applied, Cut) else "had all these tokens"
            raise InputError(f"{not_applied} changed nothing: no attention call {reason}.")
        names = [f"{kind} layers {', '.join(map(str, sorted(numbers)))}" for kind, numbers in self.layers.items()]
        raise InputError(f"{not_applied} changed nothing: the model has attention in {' and '.join(names)}.")


def check_not_checkpointed(model: nn.Module | None) -> None:
    """Raise InputError if the backward pass is to compute layers of a model again, where the changes would be missing.

    In transformers and diffusers, `gradient_checkpointing` is the attribute of a module that does so in training.
    """
    if model is None or not torch.is_grad_enabled():
        return
    if any(module.training and getattr(module, "gradient_checkpointing", False) is True for module in model.modules()):
        raise InputError(
            f"{type(model).__name__} uses gradient checkpointing: the backward pass would compute every layer again "
            "without the changes, and its gradients would be wrong; switch gradient checkpointing off, call "
            "model.eval(), or run the model in torch.no_grad()."
        )


def has_edge(call: Call, cut: Cut, first_query: int, first_key: int) -> bool:
    """Return whether an attention call, before any change, lets a query of a `Cut` attend to the key of the `Cut`.

    `first_query` and `first_key` are the positions in the text of the first query and of the first key of the call.
    """
    key, queries = int(cut.key) - first_key, range(call.grid.queries)
    if cut.query is not None:
        query = int(cut.query) - first_query
        if query not in queries:
            return False
        queries = range(query, query + 1)
    if key not in range(call.grid.keys):
        return False
    keep = call.keep(call.grid.whole().part(queries=queries, keys=range(key, key + 1)))
    return keep is None or bool(keep.any())
