"""Tests of traces of the Audio Spectrogram Transformer: the part of the spectrogram that each patch covers."""

import numpy as np
import pytest
import torch
from random_models import eager_softmaxes, sharp
from refusals import refusal
from torch.testing import assert_close
from transformers import ASTConfig, ASTFeatureExtractor, ASTModel

import regard
from regard import InputError, Trace
from regard.tracing.tokens.places import Patch
from regard.views.page.data import token_record

BANDS, FRAMES, SIDE = 21, 64, 8
ROW_STEP, COLUMN_STEP = 5, 6


@pytest.fixture(scope="module")
def model():
    config = ASTConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, num_mel_bins=BANDS,
        max_length=FRAMES, patch_size=SIDE, frequency_stride=ROW_STEP, time_stride=COLUMN_STEP,
    )  # fmt: skip
    return sharp(ASTModel(config))


class Extractor:
    """A feature extractor that returns a given spectrogram [frames bands]."""

    sampling_rate = 16_000

    def __init__(self, frames):
        self.frames = frames

    def __call__(self, audio, sampling_rate, return_tensors):
        return {"input_values": self.frames[None]}


@pytest.fixture
def frames():
    return torch.rand(FRAMES, BANDS, generator=torch.Generator().manual_seed(0))


def traced(model, frames):
    return regard.trace(model, audio=np.zeros(9_000, dtype=np.float32), processor=Extractor(frames))


def test_patterns_are_the_eager_weights(model, frames):
    trace = traced(model, frames)
    assert [token.text for token in trace.source[:4]] == ["[CLS]", "[EXTRA 1]", "2,0", "2,1"]  # the lowest bands first
    for layer, expected in enumerate(eager_softmaxes(model, {"input_values": frames[None]})):
        assert_close(trace.encoder[layer].dense(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("band", "frame"), [(0, 0), (6, 7), (12, 30), (17, 61)])
def test_the_patches_at_a_place_are_those_that_read_it(model, frames, band, frame):
    changed = frames.clone()
    changed[frame, band] += 3.0
    one, other = traced(model, frames), traced(model, changed)
    moved = (one.encoder[0].query - other.encoder[0].query).abs().amax(dim=(0, 1, 3)) > 1e-6
    shown = other.images[0][0]
    row, column = (int(number) for number in (shown == shown.max()).nonzero()[0])

    def covers(patch):
        return 0 <= row - patch.top < patch.height and 0 <= column - patch.left < patch.width

    places = [token.place for token in one.source]
    assert [isinstance(place, Patch) and covers(place) for place in places] == moved.tolist()
    assert 1 <= int(moved.sum()) <= 4
    for place in (place for place in places if isinstance(place, Patch) and covers(place)):
        assert place.start_seconds - 1e-9 <= frame * 0.01 < place.end_seconds


def test_views_colour_the_middles_of_patches_which_do_not_overlap(model, frames, tmp_path):
    trace = traced(model, frames)
    by_text = {token.text: token for token in Trace.load(trace.save(tmp_path / "ast.safetensors")).source}
    assert by_text["1,2"] == next(token for token in trace.source if token.text == "1,2")
    shown = {text: token_record(by_text[text], word_flag=True)["place"] for text in ("1,2", "1,3", "2,2")}
    here, right, below = shown.values()
    assert (here["height"], here["width"]) == (ROW_STEP, COLUMN_STEP)
    assert (here["left"] + here["width"], here["top"] + here["height"]) == (right["left"], below["top"])
    place = by_text["1,2"].place
    assert here["top"] + ROW_STEP / 2 == place.top + SIDE / 2
    assert here["left"] + COLUMN_STEP / 2 == place.left + SIDE / 2


def test_a_recording_that_is_longer_than_the_model_reads_is_refused():
    sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model, extractor = ASTModel(ASTConfig(num_mel_bins=40, **sizes)), ASTFeatureExtractor(num_mel_bins=40)
    audio = np.zeros(16_000 * 11, dtype=np.float32)
    assert len(regard.trace(model, audio=audio[:160_000], processor=extractor).tokens) == 2 + 3 * 101
    assert refusal(InputError, regard.trace, model, audio=audio, processor=extractor) == (
        "the recording has 11.00 seconds and ASTModel reads 10.24; give a part of it, made for instance with: "
        "ffmpeg -i FILE -t 10.24 part.wav"
    )
