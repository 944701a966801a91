"""The vectors in a translator's layers, against hooks on its own modules, and the refusals of `keep`."""

import copy
import math
from contextlib import ExitStack

import pytest
import torch
from refusals import refusal
from torch.testing import assert_close
from trained_translator import train_translator

from regard import InputError, Recurrent, RecurrentConfig
from regard.text.vocabulary import BOS
from regard.translation.translator import Translator

SOURCE = "the cat sat on a mat"


@pytest.fixture(scope="module", params=["pre", "post"])
def normed(vocabularies, request):
    """A translator whose layers norm before or after each part."""
    return train_translator(*vocabularies, norm=request.param)


def outputs_of(translator, translation, paths):
    """What modules of the translator's model return while it reads a translation, by path."""
    found = {}
    with ExitStack() as hooks:
        for path in paths:

            def note(module, args, output, path=path):
                found[path] = getattr(output, "output", output)[0]

            hooks.callback(translator.model.get_submodule(path).register_forward_hook(note).remove)
        translator.score([translation.source], targets=[translation.text])
    return found


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_the_vectors_of_each_layer_are_those_of_its_modules(normed, kind):
    translation = normed.translate([SOURCE])[0]
    trace = normed.trace(translation, keep=("hidden",))
    parts = {"attention": ".self_attention", "feed_forward": ".feed_forward", "after": ""}
    paths = {(layer, name): f"{kind}.blocks.{layer}{part}" for layer in range(3) for name, part in parts.items()}
    wanted = outputs_of(normed, translation, paths.values())
    movement = trace.movement(2, kind=kind)
    assert movement.layers == (0, 1, 2)
    for (layer, name), path in paths.items():
        assert_close(getattr(movement, name)[layer], wanted[path][2], atol=1e-5, rtol=1e-5)
    assert_close(movement.before[1:], movement.after[:-1])
    bias = normed.model.get_submodule(kind).blocks[1].self_attention.to_output.bias
    assert_close(movement.by_head[1].sum(dim=0) + bias, movement.attention[1], atol=1e-5, rtol=1e-5)
    assert_close(movement.by_source.sum(dim=1), movement.by_head.sum(dim=1), atol=1e-5, rtol=1e-5)
    if kind == "encoder" and normed.model.config.norm == "pre":
        assert_close(movement.rest, torch.zeros_like(movement.rest), atol=1e-5, rtol=0)


def added_vectors(attention, x, memory, is_causal):
    """Weight · value · W_O of each key, for each head and query, from the inputs of a layer's attention."""
    query, key, value = attention.to_query(x), attention.to_key(memory), attention.to_value(memory)
    added = []
    for head in (slice(0, 16), slice(16, 32)):
        scores = query[:, head] @ key[:, head].T / 4
        if is_causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(diagonal=1) == 1, -math.inf)
        added.append(scores.softmax(dim=-1)[:, :, None] * (value[:, head] @ attention.to_output.weight[:, head].T))
    return torch.stack(added)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_what_each_key_adds_is_a_product_by_hand_in_float64(normed, kind):
    translation = normed.translate([SOURCE])[0]
    trace = normed.trace(translation, keep=("hidden",))
    model, inputs = copy.deepcopy(normed.model).double(), []
    blocks = model.encoder.blocks if kind == "encoder" else model.decoder.blocks
    attentions = [block.cross_attention if kind == "cross" else block.self_attention for block in blocks]
    for attention in attentions:
        attention.register_forward_pre_hook(lambda module, args: inputs.append(args[0][0]))
    source, target = torch.tensor([translation.source_ids]), torch.tensor([[BOS, *translation.target_ids]])
    with torch.no_grad():
        memory = model.encoder(source).output[0]
        if kind != "encoder":
            model(source, torch.tensor([source.shape[1]]), target)
        for layer, (attention, x) in enumerate(zip(attentions, inputs, strict=True)):
            added = added_vectors(attention, x, memory if kind == "cross" else x, is_causal=kind == "decoder")
            for query in range(added.shape[1]):
                found = trace.contributions(query, layer, kind)
                assert_close(found.vectors.double(), added[:, query], atol=1e-5, rtol=1e-4)
                assert_close(found.lengths.double(), added[:, query].norm(dim=-1), atol=1e-5, rtol=1e-4)
                moved = trace.movement(query, kind)
                assert_close(moved.by_head[layer].double(), added[:, query].sum(dim=1), atol=1e-5, rtol=1e-4)
                assert_close(moved.by_source[layer].double(), added[:, query].sum(dim=0), atol=1e-5, rtol=1e-4)
                whole = moved.before + moved.attention + moved.feed_forward + moved.rest
                assert_close(whole, moved.after, atol=1e-4, rtol=0)
    head = trace[f"{kind} L1H1"].contributions(1)
    assert torch.equal(head.vectors, trace.contributions(1, 1, kind).vectors[1])


def test_a_trace_keeps_vectors_only_on_request(translator):
    translation = translator.translate([SOURCE])[0]
    assert translation.trace.states is None
    assert set(translation.page_trace.states) == {"encoder", "decoder", "cross"}
    assert refusal(InputError, translation.trace.movement, 2, kind="encoder") == (
        "movement needs the vectors of the layers, which this trace does not have; make the trace with "
        "keep=('hidden',), and do not join its words."
    )
    assert refusal(InputError, translator.trace, translation, keep=("outputs",)) == (
        "keep=('outputs',): besides patterns, a trace can only keep=('hidden',)."
    )


def test_a_recurrent_translator_has_no_such_vectors(vocabularies):
    source, target = vocabularies
    torch.manual_seed(0)
    config = RecurrentConfig(n_source_tokens=len(source), n_target_tokens=len(target), d_model=16)
    model = Translator(model=Recurrent(config).eval(), source_vocabulary=source, target_vocabulary=target)
    translation = model.score(["the cat"], targets=["die katze"])[0]
    assert refusal(InputError, model.trace, translation, keep=("hidden",)) == (
        "the vectors of Recurrent cannot be kept, because it is no regard.Transformer; trace without keep=…."
    )
    assert translation.page_trace is translation.trace
