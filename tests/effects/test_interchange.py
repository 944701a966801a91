"""Heads whose outputs are those of another run, against hooks on the output projections of eager models."""

from dataclasses import replace

import pytest
import torch
from hooked_heads import CLEAN, CORRUPTED, OTHER_TARGET, TARGET, bert, by_hooks, gpt2, llama, marian, output_of, traced
from random_models import t5
from refusals import refusal
from torch.testing import assert_close

import regard
from regard import Ask, InputError, Interchange, Silence

EXACT = {"rtol": 1e-10, "atol": 1e-10}
"""The tolerance in float64: the two implementations differ only by the order of sums, in outputs of size 1 to 100."""
LLAMA = {"rtol": 1e-5, "atol": 1e-5}
"""The tolerance for Llama, whose eager attention computes the softmax in float32."""


MODELS = {
    "L1H2": (gpt2, "transformer.h.1.attn.c_proj"),
    "L2H0": (bert, "encoder.layer.2.attention.output.dense"),
    "L0H3": (llama, "model.layers.0.self_attn.o_proj"),
    "encoder L1H1": (marian, "model.encoder.layers.1.self_attn.out_proj"),
    "decoder L0H2": (marian, "model.decoder.layers.0.self_attn.out_proj"),
    "cross L1H0": (marian, "model.decoder.layers.1.encoder_attn.out_proj"),
    "cross L0H4": (lambda: t5().double(), "decoder.block.0.layer.1.EncDecAttention.o"),
}
"""For each head: a model of it, and the path of the output projection whose input is the outputs of the heads."""


@pytest.mark.parametrize(
    ("tokens", "pairs"),
    [(None, None), ([2, 5], [(2, 2), (5, 5)]), ({2: 4, -1: 0}, [(2, 4), (-1, 0)])],
    ids=["all", "some", "other"],
)
@pytest.mark.parametrize("head", MODELS)
def test_an_interchange_is_a_hook_before_the_output_projection(head, tokens, pairs, tokenizer):
    make, path = MODELS[head]
    model = make()
    clean = traced(model, tokenizer, CLEAN, TARGET)
    corrupted = output_of(model, tokenizer, CORRUPTED, OTHER_TARGET)
    expected = by_hooks(model, tokenizer, head, path, pairs)
    found = traced(model, tokenizer, CORRUPTED, OTHER_TARGET, Interchange(head, clean, tokens))
    assert_close(found.output, expected, **(LLAMA if make is llama else EXACT))
    assert (found.output - corrupted).abs().max() > 1e-3
    assert found.check().max_error < 1e-12  # the pattern is the head's own, and so is the context it is compared with
    assert torch.equal(output_of(model, tokenizer, CORRUPTED, OTHER_TARGET), corrupted)  # the model is as before


@pytest.mark.parametrize("head", MODELS)
def test_a_head_interchanged_with_its_own_run_changes_nothing(head, tokenizer):
    model = MODELS[head][0]().float()
    clean = traced(model, tokenizer, CLEAN, TARGET)
    same = traced(model, tokenizer, CLEAN, TARGET, Interchange(head, clean))
    assert_close(same.output, clean.output, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("installs", [False, True])
def test_watching_inside_or_outside_of_changed_records_the_outputs_of_the_other_run(installs, tokenizer):
    model = gpt2()
    if installs:
        regard.install(model)
    clean = traced(model, tokenizer, CLEAN, TARGET)
    other, change = clean.attended["decoder"][1].context[0, 2], Interchange("L1H2", clean)
    expected = by_hooks(gpt2(), tokenizer, "L1H2", MODELS["L1H2"][1], None)
    for order in (0, 1):
        blocks = [regard.changed(model, [change]), regard.watching(model)]
        with blocks[order] as outer, blocks[1 - order] as inner:
            output = output_of(model, tokenizer, CORRUPTED, OTHER_TARGET)
        watched = (inner, outer)[order]
        assert_close(output, expected, **EXACT)
        assert [torch.equal(step.attended.context[0, 2], other) for step in watched.steps] == [False, True, False]
        assert watched.check().max_error < 1e-12
        assert len(watched.steps) == 3


def test_a_run_with_an_interchange_can_be_interchanged_with(tokenizer):
    """Path patching: a later head receives from a run in which an earlier head was replaced."""
    model = gpt2()
    clean = traced(model, tokenizer, CLEAN, TARGET)
    between = traced(model, tokenizer, CORRUPTED, OTHER_TARGET, Interchange("L0H1", clean))
    found = traced(model, tokenizer, CORRUPTED, OTHER_TARGET, Interchange("L0", between), Interchange("L2H3", clean))
    expected = traced(model, tokenizer, CORRUPTED, OTHER_TARGET, Interchange("L0H1", clean), Interchange("L2H3", clean))
    assert_close(found.output, expected.output, **EXACT)


def test_an_interchange_overwrites_other_changes_of_its_head_alone(tokenizer):
    model = gpt2()
    clean = traced(model, tokenizer, CLEAN, TARGET)
    both = [Interchange("L1H2", clean), Silence("L1H2")]
    alone = traced(model, tokenizer, CORRUPTED, "", Interchange("L1H2", clean))
    assert_close(traced(model, tokenizer, CORRUPTED, "", *both).output, alone.output, **EXACT)
    other = traced(model, tokenizer, CORRUPTED, "", Interchange("L1H2", clean), Silence("L1H3"))
    assert not other.attended["decoder"][1].context[0, 3].any()


def test_tokens_named_by_text_are_looked_up_in_the_text_of_each_run(tokenizer):
    model, longer = bert(), "look : the snake has a venom"
    clean = traced(model, tokenizer, longer, "")
    assert " ".join(token.text for token in clean.tokens) == f"[CLS] {longer} [SEP]"
    found = traced(model, tokenizer, CORRUPTED, "", Interchange("L2H0", clean, tokens={"horse": "snake", "has": "has"}))
    assert found.changes == (Interchange("L2H0", clean, tokens={2: 4, 3: 5}),)
    expected = by_hooks(model, tokenizer, "L2H0", MODELS["L2H0"][1], [(2, 4), (3, 5)], clean=longer)
    assert_close(found.output, expected, **EXACT)


def test_a_generated_text_is_changed_at_the_positions_of_the_whole_text(tokenizer):
    model = gpt2()
    ids, clean = torch.tensor([[3, 5, 7, 11, 13]]), traced(model, tokenizer, [2, 5, 7, 11, 13, 17, 19], "")
    options = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0}
    with regard.changed(model, [Interchange("L1H2", clean, [2, 4, 6])]), regard.watching(model) as watched:
        model.generate(ids, **options)
    steps = [step.attended.context[0, 2] for step in watched.steps if step.layer == 1]
    other = clean.attended["decoder"][1].context[0, 2]
    assert [len(step) for step in steps] == [5, 1, 1]
    assert [torch.equal(*pair) for pair in zip(torch.cat(steps), other, strict=True)] == [
        i in (2, 4, 6) for i in range(7)
    ]


def test_a_translator_of_regard_is_interchanged_in_its_own_calls(translator):
    text, target = "a b c", "b c d"
    clean = translator.trace(translator.translate([text])[0])
    projection, kept = translator.model.get_submodule("decoder.blocks.1.cross_attention.to_output"), []
    hook = projection.register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0]))
    plain = translator.score([text], targets=[target])[0]
    with regard.changed(translator.model, [Interchange("cross L1H0", clean, tokens={2: 1})]):
        changed = translator.score([text], targets=[target])[0]
    hook.remove()
    before, after = (vectors[0].unflatten(-1, (2, -1)) for vectors in kept)
    assert torch.equal(after[2, 0], clean.attended["cross"][1].context[0, 0, 1])
    assert_close(after[:2], before[:2], rtol=1e-5, atol=1e-5)
    assert_close(after[:, 1], before[:, 1], rtol=1e-5, atol=1e-5)
    assert changed != plain


def test_traces_heads_and_tokens_that_do_not_fit_are_refused(tokenizer, tmp_path):
    model, encoder, wide = gpt2(), bert(), gpt2(n_head=3)
    clean, other, shallow = (traced(one, tokenizer, CLEAN, "") for one in (model, encoder, wide))
    longer = traced(model, tokenizer, "the black snake has a venom", "")
    asked = traced(model, tokenizer, CLEAN, "", ask=Ask(entropy=True))
    first = traced(model, tokenizer, CLEAN, "", layers=[0])

    def run(change, **arguments):
        return traced(model, tokenizer, CORRUPTED, "", change, **arguments)

    def message(*arguments, **named):
        return refusal(InputError, run, Interchange(*arguments), **named)

    assert message("L1H2", longer) == (
        "Interchange('L1H2', …): the other run has 8 tokens and this one 7; give tokens=… that are in both."
    )
    assert message("L1H2", shallow) == (
        "Interchange('L1H2', …): decoder layer 1 has 4 heads of width 6, and in the other run 3 heads of width 8; "
        "both runs must be of models of the same shape."
    )
    assert message("L1H2", other) == (
        "Interchange('L1H2', …): no decoder layer 1 in the other run: it has no decoder attention."
    )
    assert message("L1H2", first) == (
        "Interchange('L1H2', …): no decoder layer 1 in the other run: it has decoder layers 0."
    )
    assert message("L1H2", asked) == (
        "Interchange('L1H2', …): the other run was traced with ask=…, which keeps no outputs of heads; trace it "
        "without ask=…."
    )
    of_pictures = Interchange("L1H2", replace(clean, images=(None, None)))
    two_items = clean.attended["decoder"][1].context.expand(2, -1, -1, -1)
    assert refusal(InputError, of_pictures.outputs, "decoder", 1, two_items) == (
        "Interchange('L1H2', …): decoder layer 1 reads 2 pictures or parts of a picture in one batch; an Interchange "
        "needs a model that reads a single picture as a whole."
    )
    assert message("L1H4", clean) == "no head H4: the layer has 4 heads, H0 to H3."
    missing = Interchange("L3H0", clean)
    assert refusal(InputError, run, missing) == (
        f"{missing} changed nothing: the model has attention in decoder layers 0, 1, 2."
    )
    assert message("L1H2", clean, "horse") == (
        "in the other run: no token 'horse' in the text; nearest: the, has, snake. A dict gives a token of each run: "
        "tokens={here: there}."
    )
    assert message("L1H2", clean, [9]) == "no token 9: there are 7, counted from 0 to 6."
    assert message("L1H2", clean, keep=("hidden",)) == (
        "keep=('hidden',) computes what each head adds from its weights, and an Interchange replaces what a head adds; "
        "give only one."
    )
    assert refusal(InputError, Interchange, "L1H2", clean, []) == (
        "tokens of Interchange is empty; name tokens, or give tokens=None for all."
    )
    assert refusal(InputError, Interchange, "L1H2", clean.words()) == (
        "other of Interchange is a trace of words; give the trace of tokens it was made from."
    )
    assert refusal(TypeError, Interchange, "L1H2", clean.output) == (
        "other of Interchange is a Tensor; it takes the trace of another run, as regard.trace(model, text) gives it."
    )
    changed = run(Interchange("L1H2", clean))
    assert refusal(InputError, changed.save, tmp_path / "a.safetensors") == (
        "a trace with an Interchange cannot be saved, since it needs the other trace too; save the other trace, and "
        "make this one again from it."
    )


def test_positions_outside_the_texts_are_refused_in_a_models_own_calls(tokenizer):
    model = gpt2()
    clean = traced(model, tokenizer, CLEAN, "")

    def run(tokens):
        with regard.changed(model, [Interchange("L1H2", clean, tokens)]):
            output_of(model, tokenizer, CORRUPTED, "")

    outside = Interchange("L1H2", clean, {7: 1})
    assert refusal(InputError, run, {7: 1}) == f"{outside} changed nothing: no attention call had all these tokens."
    assert refusal(InputError, run, {1: 7}) == (
        "Interchange('L1H2', …): no token 7 in the other run, whose 7 tokens are counted from 0 to 6."
    )
    named = Interchange("L1H2", clean, ["snake"])
    assert refusal(InputError, run, ["snake"]) == (
        f"{named} names a token by its text, and regard.changed has no text to find it in; give the token's position."
    )
    assert refusal(InputError, run, -1) == (
        f"{Interchange('L1H2', clean, -1)} has a negative position; positions are counted from 0."
    )
