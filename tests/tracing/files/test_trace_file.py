"""Tests of saving and loading a trace: all its tensors and settings come back exactly, and other files are refused.

Weights computed from a loaded trace may differ by rounding, which depends on the layout of tensors in memory.
"""

import math
from dataclasses import replace

import pytest
import torch
from damaged_trace import damage, refused, rewrite
from refusals import refusal
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

import regard
from regard.attention.masks.mask import Mask
from regard.effects.contributions import OutputProjection
from regard.effects.movement import LayerStates
from regard.errors import InputError
from regard.tensor_file import write_tensors
from regard.tracing.files.rule_json import rule_classes
from regard.tracing.files.trace_file import FORMAT
from regard.tracing.tokens.places import Patch
from regard.tracing.tokens.readable_tokens import Token

WORDS = tuple(Token(text=word, piece=word) for word in "abcdefg")

MASKS = [
    None,
    regard.Causal(),
    regard.Causal(0) & regard.Padding(torch.tensor([5])),
    regard.Window(2, 1) | regard.Global([0, 3]),
    ~regard.Documents(torch.tensor([0, 0, 1, 1, 2, 2, 2])),
    regard.Keep(torch.arange(49).reshape(7, 7) % 3 > 0),
    regard.Prefix(3),
    regard.Chunked(3),
    regard.Dilated(4, 0, 2),
    regard.Padding(torch.tensor([4]), "left"),
]

SCORES = [
    regard.ScaledDot(),
    regard.ScaledDot(scale=0.3, softcap=2.0, bias=torch.randn(1, 2, 7, 7, generator=torch.Generator().manual_seed(1))),
    regard.ScaledDot(bias=regard.Alibi()),
    regard.ScaledDot(bias=regard.RelativeBias(2, n_buckets=8)),
    regard.Additive(8, 8, 5),
    regard.General(8, 8),
    regard.Cosine(),
    regard.Distance(),
]

NORMALISERS = [
    regard.Softmax(temperature=0.5, sinks=torch.tensor([0.3, -1.0])),
    regard.Sparsemax(),
    regard.Entmax(1.5),
    regard.Sigmoid(),
    regard.TopK(3),
    regard.Hard(),
    regard.Hard(regard.Sampled(seed=5)),
    regard.Hard(regard.StraightThrough(regard.Softmax(0.5))),
    regard.GumbelSoftmax(seed=7),
    regard.TalkingHeads(2),
]


def traced(normal, **rules):
    query, key, value = normal(3, 1, 2, 7, 8).unbind()
    with torch.no_grad():
        step = regard.attend(query, key, value, **rules)
    attended = {"encoder": {0: step, 3: step}}
    return regard.Trace(model="m", text="a b …", target_text="", source=WORDS, target=(), attended=attended)


@pytest.mark.parametrize(
    "given",
    [*({"mask": m} for m in MASKS), *({"score": s} for s in SCORES), *({"normalise": n} for n in NORMALISERS)],
    ids=str,
)
def test_what_was_given_comes_back_to_the_bit_and_gives_the_same_weights(normal, given, tmp_path):
    trace = traced(normal, **given)
    again = regard.Trace.load(trace.save(tmp_path / "trace.safetensors"))
    assert repr(again) == repr(trace)
    for layer, pattern in trace.encoder.items():
        assert repr(again.encoder[layer]) == repr(pattern)
        for part in ("query", "key", "value"):
            assert torch.equal(getattr(again.encoder[layer], part), getattr(pattern, part))
        assert_close(again.encoder[layer].dense(), pattern.dense().detach(), rtol=1e-6, atol=1e-7)
        assert torch.equal(again.attended["encoder"][layer].context, trace.attended["encoder"][layer].context)
    assert again.check().max_error == pytest.approx(trace.check().max_error, abs=1e-6)


def test_the_snake_comes_back(snake, tmp_path):
    again = regard.Trace.load(snake.save(str(tmp_path / "snake.safetensors")))
    assert again.tokens == snake.tokens
    assert (again.model, again.text, again.target_text) == (snake.model, snake.text, snake.target_text)
    assert again["L3H1"]["it", "snake"] == pytest.approx(snake["L3H1"]["it", "snake"], rel=1e-6)
    assert again.check().max_error < 1e-5
    assert (again.check().magnitude, again.check().backends) == (snake.check().magnitude, snake.check().backends)
    for layer, pattern in snake.encoder.items():
        assert_close(again.encoder[layer].entropy(), pattern.entropy())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_numbers_keep_their_type(normal, dtype, tmp_path):
    query, key, value = normal(3, 1, 2, 7, 8).to(dtype).unbind()
    step = regard.attend(query, key, value, mask=regard.Causal(), score=regard.ScaledDot(bias=regard.Alibi()))
    trace = regard.Trace(model="m", text="t", target_text="", source=(), target=WORDS, attended={"decoder": {0: step}})
    again = regard.Trace.load(trace.save(tmp_path / "trace.safetensors"))
    assert again.decoder[0].query.dtype == dtype
    assert_close(again.decoder[0].dense(), step.pattern.dense())


def test_a_tensor_that_is_used_often_is_there_once(normal, tmp_path):
    keep = regard.Keep(torch.ones(7, 7, dtype=torch.bool))
    path = traced(normal, mask=keep).save(tmp_path / "trace.safetensors")
    assert len(load_file(path)) == 5  # query, key, value, context and the mask, though there are two layers


def test_parts_of_a_larger_tensor_are_kept_without_the_rest(normal, tmp_path):
    long = normal(1, 2, 10_007, 8)
    step = regard.attend(*(long[:, :, :7],) * 3)
    trace = regard.Trace(model="m", text="t", target_text="", source=WORDS, target=(), attended={"encoder": {0: step}})
    path = trace.save(tmp_path / "trace.safetensors")
    assert path.stat().st_size < 10_000
    assert torch.equal(regard.Trace.load(path).encoder[0].key, step.pattern.key)


class Mine(Mask):
    """A mask class of the user's own, which a trace file cannot store."""

    def keep(self, tile, device):
        return torch.ones(tile.shape, dtype=torch.bool)


def test_what_nobody_could_read_back_is_refused_and_leaves_nothing(normal, tmp_path):
    trace = traced(normal, mask=regard.Causal() & Mine())
    assert refusal(InputError, trace.save, tmp_path / "trace.safetensors") == (
        "this trace cannot be saved: Mine is not one of regard's own scores, masks and normalisers, so the file could "
        "not be read back."
    )
    assert list(tmp_path.iterdir()) == []


def test_every_kind_of_rule_is_known_by_a_name_of_its_own():
    found = rule_classes()
    assert len(found) == len(set(found.values())) > 30
    assert {"Causal", "Both", "Opposite", "ScaledDot", "Additive", "Softmax", "Alibi", "Sampled"} <= set(found)


NO_TRACE = "FILE holds no trace; give a file that trace.save wrote."
NO_FILE = "FILE is damaged, or is not a safetensors file; copy it again."


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "other"
    assert refused(path) == "cannot read FILE: no such file or directory."
    path.write_bytes(b"something else")
    assert refused(path) == NO_FILE
    save_file({"a": torch.ones(2)}, path)
    assert refused(path) == (
        "FILE has no checksum: regard did not write it, or an earlier version did; give a file that this regard wrote."
    )
    for metadata in ({}, {FORMAT: "{"}, {FORMAT: "[]"}, {FORMAT: "[" * 100_000}):
        write_tensors(path, {"a": torch.ones(2)}, metadata)
        assert refused(path) == NO_TRACE


@pytest.mark.parametrize("place", [0.8, 0.9, 0.999])
def test_one_changed_byte_is_found(normal, tmp_path, place):
    path = traced(normal).save(tmp_path / "trace.safetensors")
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 4
    path.write_bytes(content)
    assert refused(path) == "FILE is damaged: it is not what was written (its SHA-256 differs); copy it again."


def test_a_file_that_was_cut_off_is_refused(normal, tmp_path):
    path = traced(normal).save(tmp_path / "trace.safetensors")
    path.write_bytes(path.read_bytes()[:-7])
    assert refused(path) == NO_FILE


def test_a_newer_version_is_refused(normal, tmp_path):
    path = traced(normal).save(tmp_path / "trace.safetensors")
    assert refused(rewrite(path, lambda about, tensors: about.update(version=4))) == (
        "FILE is a trace of version 4 and this version of regard reads version 3; read it with the regard that "
        "wrote it."
    )


def of_call(change):
    """A function that calls `change` on the first attention call in a description, and on the file's tensors."""
    return lambda about, tensors: change(about["attended"]["encoder"]["0"], tensors)


def of_tensor(name, change):
    """A function that replaces a tensor of the first attention call by `change` of the tensor."""
    return of_call(lambda call, tensors: tensors.update({call[name]: change(tensors[call[name]])}))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda about, _: about.pop("model"), "KeyError 'model'"),
        (lambda about, _: about.update(model="a\x1b[2Jb"), "the model's name has control characters"),
        (lambda about, _: about.update(text=5), "TypeError the model's name and the texts must be strings"),
        (lambda about, _: about.update(attended={"encoder": {}}), "it has no attention call"),
        (lambda about, _: about.update(attended={}), "it has no attention call"),
        (lambda about, _: about["source"].pop(), "layer 0 has 7 queries and 7 keys, and the texts have 6 and 6 tokens"),
        (of_call(lambda call, _: call.update(mask={"rule": "os.system"})), "KeyError 'os.system'"),
        (of_call(lambda call, _: call.update(query="99")), "KeyError '99'"),
        (of_call(lambda call, _: call.update(backend=None)), "TypeError the backend's name must be a string"),
        (
            lambda about, _: about.update(
                written=[{"position": 1, "token": about["source"][1], "probability": 0.5, "alternatives": [["y", "z"]]}]
            ),
            "TypeError alternatives are texts and probabilities",
        ),
        (
            of_tensor("query", lambda tensor: torch.full_like(tensor, torch.nan)),
            "a query must have numbers without NaN",
        ),
        (of_tensor("context", torch.Tensor.bool), "a context must have floating-point numbers"),
        (
            of_tensor("context", lambda tensor: tensor[..., :5].clone()),
            "a context of shape [1, 2, 7, 5] does not belong to batch=1, heads=2, queries=7, keys=7",
        ),
    ],
)
def test_a_damaged_description_or_tensor_is_refused(normal, tmp_path, change, what):
    assert damage(rewrite(traced(normal).save(tmp_path / "trace.safetensors"), change)) == what


def test_another_ending_is_refused(normal, tmp_path):
    assert refusal(InputError, traced(normal).save, tmp_path / "trace.pt") == (
        f"a trace is saved as a safetensors file; {tmp_path}/trace.pt does not end in .safetensors."
    )
    assert not any(tmp_path.iterdir())


def test_a_trace_without_tokens_is_refused(tmp_path):
    x = torch.zeros(1, 2, 0, 4)
    attended = {"encoder": {0: regard.attend(x, x, x)}}
    trace = regard.Trace(model="m", text="", target_text="", source=(), target=(), attended=attended)
    path = trace.save(tmp_path / "trace.safetensors")
    assert damage(path) == "it has an attention call without queries, keys or heads"


def test_vectors_that_are_no_floating_point_numbers_or_have_another_shape_are_refused(normal, tmp_path):
    vectors = {name: normal(7, 5) for name in ("before", "after", "attention", "feed_forward")}
    state = LayerStates(**vectors, projection=OutputProjection(normal(2, 8, 5), None))
    trace = replace(traced(normal), states={"encoder": {0: state, 3: state}})
    assert regard.Trace.load(trace.save(tmp_path / "trace.safetensors")).states is not None
    for change, what in (
        (torch.Tensor.int, "the vectors of a layer must be finite floating-point numbers"),
        (lambda tensor: tensor[:, :3].clone(), "the vectors of a layer do not fit its attention"),
    ):

        def changed(about, tensors, change=change):
            name = about["states"]["encoder"]["0"]["before"]
            tensors[name] = change(tensors[name])

        assert damage(rewrite(trace.save(tmp_path / "trace.safetensors"), changed)) == what


def test_the_tokens_of_each_layer_come_back_and_are_those_of_the_encoders_layers(normal, tmp_path):
    trace = replace(traced(normal), sources={0: WORDS, 3: WORDS[::-1]}, source=WORDS[::-1])
    path = trace.save(tmp_path / "trace.safetensors")
    assert regard.Trace.load(path).sources == trace.sources
    rewrite(path, lambda about, tensors: about["sources"]["layers"].pop("3"))
    assert damage(path) == "the layers that have tokens are not the layers of the encoder"
    rewrite(path, lambda about, tensors: about["sources"]["stages"][0].pop())
    assert damage(path) == "layer 0 has 7 queries and 7 keys, and the texts have 6 and 6 tokens"


def test_nan_and_infinity_in_rules_come_back(normal, tmp_path):
    trace = traced(normal, normalise=regard.Softmax(sinks=torch.tensor([-math.inf, 1.0])))
    again = regard.Trace.load(trace.save(tmp_path / "trace.safetensors"))
    assert_close(again.encoder[0].dense(), trace.encoder[0].dense())


def test_a_trace_of_a_model_with_control_characters_in_its_name_is_saved_with_their_codes(normal, tmp_path):
    trace = replace(traced(normal), model="a\nb\x1b")
    assert regard.Trace.load(trace.save(tmp_path / "trace.safetensors")).model == "a⏎b‹1B›"


@pytest.mark.parametrize(
    ("name", "numbers", "what"),
    [
        ("output", torch.zeros(7, 3), "output must be a floating-point tensor of 3 axes"),
        ("images", torch.zeros(4, 4), "image must be a floating-point tensor of 3 axes"),
        ("images", torch.zeros(4, 4, 4), "image must have three colours"),
        ("images", torch.full((3, 4, 4), torch.inf), "image must have finite numbers"),
        ("spectrogram", torch.zeros(5), "spectrogram must be a floating-point tensor of 2 axes"),
        ("spectrogram", torch.full((5, 7), torch.inf), "spectrogram must have finite numbers"),
    ],
)
def test_outputs_pictures_and_recordings_are_of_finite_numbers_and_right_shapes(
    normal, tmp_path, without_type_checks, name, numbers, what
):
    trace = replace(traced(normal), **{name: (numbers,) if name == "images" else numbers})
    assert damage(trace.save(tmp_path / "trace.safetensors")) == f"TypeError {what}"


def test_a_patch_of_a_picture_that_is_missing_is_refused(normal, tmp_path):
    for place, what in (
        (Patch(1, 0, 0, 4.0, 4.0), "a patch of an image that the trace lacks"),
        *(
            (patch, f"{patch}, which is not a part of an image")
            for patch in (Patch(0, 10**9, 0, 4.0, 4.0), Patch(0, 0, -1, 4.0, 4.0), Patch(0, 0, 0, 4.0, 0.0))
        ),
    ):
        tokens = (replace(WORDS[0], place=place), *WORDS[1:])
        trace = replace(traced(normal), source=tokens, images=(torch.zeros(3, 4, 4),))
        assert damage(trace.save(tmp_path / "trace.safetensors")) == f"a token stands for {what}"
