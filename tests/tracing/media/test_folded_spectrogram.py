"""Tests of traces of CLAP's audio encoder: the time and the bands of each patch, and the weights of its windows."""

import numpy as np
import pytest
import torch
from patches import changed_tokens
from random_models import eager_softmaxes, sharp
from refusals import refusal
from torch.testing import assert_close
from transformers import ClapAudioConfig, ClapAudioModel

import regard
from regard import Ask, InputError

SECONDS = 2.56


class Extractor:
    """A feature extractor that returns given features: 256 frames of 10 ms, 16 bands; CLAP needs no interpolation."""

    sampling_rate, hop_length, feature_size = 16_000, 160, 16

    def __init__(self, features):
        self.features = features

    def __call__(self, audio, sampling_rate, return_tensors):
        return {"input_features": self.features, "is_longer": torch.tensor([[False]])}


@pytest.fixture(scope="module")
def clap():
    config = ClapAudioConfig(
        window_size=4, num_mel_bins=16, spec_size=64, patch_size=4, patch_stride=[4, 4], patch_embeds_hidden_size=12,
        depths=[2, 2], num_attention_heads=[2, 4], hidden_size=24, projection_dim=8, enable_fusion=False,
    )  # fmt: skip
    return sharp(ClapAudioModel(config))


@pytest.fixture
def features():
    return torch.randn(1, 1, 256, 16, generator=torch.Generator().manual_seed(0))


def traced(model, features, n_samples=40_960, **options):
    audio = np.zeros(n_samples, dtype=np.float32)
    return regard.trace(model, audio=audio, processor=Extractor(features), **options)


def windows_of(rows, shift):
    """The positions of the 16 patches of each window in a square of rows × rows patches, row by row."""
    square = torch.arange(rows**2).view(rows, rows).roll((-shift, -shift), dims=(0, 1))
    return square.unfold(0, 4, 4).unfold(1, 4, 4).reshape(-1, 16)


def test_windows_are_patterns_over_the_patches_of_the_spectrogram(clap, features):
    trace = traced(clap, features)
    expected = eager_softmaxes(clap, {"input_features": features, "is_longer": torch.tensor([[False]])})
    received = traced(clap, features, ask=Ask(received=True)).encoder
    for layer, (rows, shift) in enumerate([(16, 0), (16, 2), (8, 0), (8, 2)]):
        whole = torch.zeros(expected[layer].shape[1], rows**2, rows**2)
        for positions, weights in zip(windows_of(rows, shift), expected[layer], strict=True):
            whole[:, positions[:, None], positions] = weights
        assert_close(trace.encoder[layer].dense()[0], whole, rtol=1e-4, atol=1e-5)
        assert_close(received[layer].received()[0], whole.sum(1), rtol=1e-4, atol=1e-4)


def test_a_patch_is_where_the_spectrogram_changes(clap, features):
    changed = features.clone()
    changed[0, 0, 100:104, 8:12] += 3.0  # the patch in column 25; from below, the third of four rows
    one, other = traced(clap, features), traced(clap, changed)
    (token,) = changed_tokens(one, other, "L0H0")
    assert (token.text, token.place.row, token.place.column) == ("1,25", 1, 25)
    assert (token.place.start_seconds, token.place.end_seconds) == pytest.approx((1.0, 1.04))
    picture = (one.images[0] - other.images[0]).abs() > 0.05
    assert one.images[0].shape == (3, 64, 256)  # each band has four rows
    top, left = int(token.place.top), int(token.place.left)
    assert bool(picture[:, top : top + 16, left : left + 4].float().mean() > 0.9)
    merged = next(token for token in one.sources[2] if token.text == "0,12").place
    assert (merged.height, merged.width) == (32.0, 8.0)
    assert (merged.start_seconds, merged.end_seconds) == pytest.approx((0.96, 1.04))


def test_a_recording_that_is_longer_than_clap_reads_is_refused(clap, features):
    assert refusal(InputError, traced, clap, features, n_samples=80_000) == (
        "the recording has 5.00 seconds and ClapAudioModel reads 2.56; give a part of it, made for instance with: "
        "ffmpeg -i FILE -t 2.56 part.wav"
    )
