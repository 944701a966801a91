"""Tests of traces of recordings: the time of each token, the model's weights, and the silence after a recording."""

import copy
import wave

import numpy as np
import pytest
import torch
import transformers
from pictures import texts
from random_models import assert_weights, eager_outputs, sharp
from refusals import refusal
from torch.testing import assert_close

import regard
from regard import InputError
from regard.tracing.focus import focus_on
from regard.tracing.tokens.places import Frame
from regard.views.picture.canvas import DPI, rendered
from regard.views.picture.trace import figure

WAVE = np.sin(np.arange(16_000) / 20).astype(np.float32)
"""A recording of one second."""

A_DOG_RUNS = torch.tensor([[101, 1037, 3899, 3216]])
"""The ids of "[CLS] a dog runs" in MiniLM's vocabulary."""


class SpeechAndText:
    """A processor of speech, as Whisper has one."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.feature_extractor = transformers.WhisperFeatureExtractor(feature_size=80, chunk_length=2)

    def __call__(self, audio, sampling_rate, return_tensors):
        return self.feature_extractor(audio, sampling_rate=sampling_rate, return_tensors=return_tensors)


@pytest.fixture(scope="module")
def whisper():
    config = transformers.WhisperConfig(
        vocab_size=30522, d_model=24, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37, max_source_positions=100,
        decoder_start_token_id=101, pad_token_id=0, bos_token_id=101, eos_token_id=102, suppress_tokens=None,
        begin_suppress_tokens=None,
    )  # fmt: skip
    return sharp(transformers.WhisperForConditionalGeneration(config))


def assert_all_weights(trace, expected):
    for kind in ("encoder", "decoder", "cross"):
        assert_weights(getattr(trace, kind), getattr(expected, f"{kind}_attentions"), rtol=1e-3, atol=1e-5)


def test_speech_is_read_in_frames_of_time(whisper, minilm, tmp_path):
    model, processor = whisper, SpeechAndText(minilm.tokenizer)
    assert refusal(InputError, regard.trace, model, audio=WAVE, processor=processor) == (
        "WhisperForConditionalGeneration also reads a target; give it with target=…, or in regard.trace and regard "
        "look let the model write it with new_tokens=…."
    )
    assert refusal(InputError, regard.trace, model, audio=WAVE, processor=processor, sampling_rate=8_000) == (
        "the recording has 8,000 samples per second and WhisperForConditionalGeneration reads 16,000; convert it, for "
        "instance with: ffmpeg -i FILE -ar 16000 speech.wav"
    )
    trace = regard.trace(model, audio=WAVE, processor=processor, target="a dog runs")
    assert trace.kinds == ("encoder", "decoder", "cross")
    assert [token.text for token in trace.target] == ["[CLS]", "a", "dog", "runs"]
    assert len(trace.source) == 100
    samples = (WAVE * 2**15).astype("<i2")
    with wave.open(str(tmp_path / "speech.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", "not compressed"))
        file.writeframes(samples.tobytes())
    rounded = regard.trace(model, audio=(samples / 2**15).astype(np.float32), processor=processor, target="a dog runs")
    for path in (tmp_path / "speech.wav", str(tmp_path / "speech.wav")):
        from_file = regard.trace(model, audio=path, processor=processor, target="a dog runs", sampling_rate=1)
        assert_close(from_file.output, rounded.output)
    assert refusal(InputError, regard.trace, model, audio=tmp_path / "none.wav", processor=processor) == (
        f"there is no file {tmp_path}/none.wav; nearest: speech.wav."
    )
    place = trace.source[50].place
    assert isinstance(place, Frame)
    assert (place.start_seconds, place.end_seconds) == pytest.approx((1.0, 1.02))
    inputs = processor(WAVE, 16_000, "pt") | {"decoder_input_ids": A_DOG_RUNS}
    expected = eager_outputs(model, inputs)
    assert_all_weights(trace, expected)
    drawing = trace.figure(tmp_path / "speech.svg", token="dog", head="cross L1H2").read_text()
    assert all(f'id="{name}"' in drawing for name in ("spectrogram", "weights"))
    last = regard.trace(model, audio=WAVE, processor=processor, target="a dog runs", layers=[2])
    assert last.kinds == ("decoder", "cross")
    assert_close(last.cross[2].dense(), trace.cross[2].dense())
    written = regard.trace(model, audio=WAVE, processor=processor, new_tokens=4)
    assert [new.position for new in written.written] == list(range(1, len(written.target)))
    model.save_pretrained(tmp_path / "whisper")
    search = transformers.GenerationConfig(max_new_tokens=4)
    loaded = regard.trace(tmp_path / "whisper", audio=WAVE, processor=processor, generation=search)
    assert loaded.target == written.target
    assert refusal(InputError, regard.trace, model, audio=WAVE, processor=processor, target="a", new_tokens=4) == (
        "with target the model reads a text, with new_tokens it writes one; give only one of them."
    )


def test_a_model_that_halves_the_frames_twice_has_a_token_for_four(minilm):
    config = transformers.Speech2TextConfig(
        vocab_size=30522, d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37, conv_channels=16, input_feat_per_channel=20,
        decoder_start_token_id=101, pad_token_id=0, bos_token_id=101, eos_token_id=102,
    )  # fmt: skip
    model, processor = sharp(transformers.Speech2TextForConditionalGeneration(config)), SpeechAndText(minilm.tokenizer)
    processor.feature_extractor = transformers.Speech2TextFeatureExtractor(feature_size=20, num_mel_bins=20)
    trace = regard.trace(model, audio=WAVE, processor=processor, target="a dog runs")
    inputs = processor(WAVE, 16_000, "pt") | {"decoder_input_ids": A_DOG_RUNS}
    assert inputs["input_features"].shape == (1, 98, 20)
    expected = eager_outputs(model, inputs)
    assert_all_weights(trace, expected)
    assert [token.place.start_seconds for token in trace.source] == pytest.approx([0.04 * n for n in range(25)])
    assert all(token.place.recorded for token in trace.source)
    assert torch.equal(trace.spectrogram, inputs["input_features"][0].T)
    assert len(regard.trace(model, audio=WAVE, processor=processor, new_tokens=3).written) > 0


def test_a_model_that_reads_the_wave_itself_has_no_spectrogram(tmp_path):
    config = transformers.Wav2Vec2Config(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, conv_dim=(16, 16),
        conv_stride=(40, 8), conv_kernel=(40, 8), num_feat_extract_layers=2, num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    model, processor = sharp(transformers.Wav2Vec2Model(config)), transformers.Wav2Vec2FeatureExtractor()
    trace = regard.trace(model, audio=WAVE, processor=processor)
    assert len(trace.tokens) == 50
    assert trace.tokens[-1].place.end_seconds == pytest.approx(1.0)
    assert trace.spectrogram is None
    assert 'id="query"' in trace.figure(tmp_path / "wave.svg", token=10, head="L0H0").read_text()


@pytest.mark.parametrize("kind", ["Wav2Vec2", "SEW"])
def test_the_time_of_a_token_is_that_of_the_samples_that_it_depends_on(kind):
    """Of a recording of 1 second, wav2vec 2 reads 49 windows of 25 ms, which start every 20 ms."""
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}
    convolutions = {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "feat_extract_norm": "layer"}
    config = getattr(transformers, f"{kind}Config")(**sizes, **convolutions)
    model = sharp(getattr(transformers, f"{kind}Model")(config))
    trace = regard.trace(model, audio=WAVE, processor=transformers.Wav2Vec2FeatureExtractor())
    seconds = 0.02 if kind == "Wav2Vec2" else 0.04
    assert len(trace.tokens) == {0.02: 49, 0.04: 24}[seconds]
    assert [token.place.start_seconds for token in trace.tokens] == pytest.approx(
        [seconds * n for n in range(len(trace.tokens))]
    )
    click = np.zeros(16_000, dtype=np.float32)
    click[15_300] = 1.0  # in the middle of frame 47 of 20 ms: from 0.94 to 0.96 seconds
    with torch.no_grad():
        features = model.feature_extractor(torch.from_numpy(np.stack([click, 0 * click])))
    changes = (features[0] - features[1]).abs().sum(dim=0)
    assert changes.nonzero().flatten().tolist()[-1] == 47


def test_the_silence_after_a_recording_is_one_token_of_the_views(whisper, minilm, tmp_path, capsys):
    processor = SpeechAndText(minilm.tokenizer)
    trace = regard.trace(whisper, audio=WAVE[:15_900], processor=processor, target="a dog runs")
    assert [i for i, token in enumerate(trace.source) if not token.place.recorded] == list(range(50, 100))
    shown = trace.without_padding()
    assert [token.text for token in shown.source[48:]] == ["0.96s", "0.98s", "[silence after the recording]"]
    assert shown.source[:50] == trace.source[:50]
    assert shown.spectrogram.shape == (80, 100)  # 10 ms each
    assert torch.equal(shown.spectrogram, trace.spectrogram[:, :100])
    inputs = processor(WAVE[:15_900], 16_000, "pt") | {"decoder_input_ids": A_DOG_RUNS}
    expected = eager_outputs(whisper, inputs)
    for layer, weights in enumerate(expected.cross_attentions):
        summed = torch.cat([weights[..., :50], weights[..., 50:].sum(-1, keepdim=True)], dim=-1)
        assert_close(shown.cross[layer].dense(), summed, rtol=1e-3, atol=1e-5)
    for layer, weights in enumerate(expected.encoder_attentions):
        summed = torch.cat([weights[..., :50], weights[..., 50:].sum(-1, keepdim=True)], dim=-1)
        averaged = torch.cat([summed[:, :, :50], summed[:, :, 50:].mean(2, keepdim=True)], dim=2)
        assert_close(shown.encoder[layer].dense(), averaged, rtol=1e-3, atol=1e-5)
    assert shown.attended["decoder"] == trace.attended["decoder"]
    assert shown.without_padding() is shown
    assert shown.check() == trace.check()
    silence = float(expected.cross_attentions[1][0, 2, 2, 50:].sum())
    words = trace.words("dog runs").without_padding()
    assert [len(words.source), [token.text for token in words.target]] == [51, ["[CLS]", "a", "dog runs"]]
    both = expected.cross_attentions[1][0, 2, 2:, 50:].sum(-1).mean()
    assert_close(words["cross L1H2"].row("dog runs")[50], both, rtol=1e-3, atol=1e-5)

    trace.show("dog", "cross L1H2")
    text = capsys.readouterr().out
    assert f"{silence:.3f} on the silence after the recording" in text
    assert "  0         0.2       0.4       0.6       0.8       1 s" in text
    trace.show("dog", "cross L1H2", padding=True)
    text = capsys.readouterr().out
    assert "on the silence" not in text
    assert any(line.rstrip().endswith(" 2 s") for line in text.splitlines())
    for padding in (False, True):
        of = trace if padding else shown
        drawn = figure(of, focus_on(of, "dog", "cross L1H2"))
        assert ("2 s" in texts(drawn)) == padding
        assert ("[silence after the recording]" in texts(drawn)) != padding
        written = trace.figure(tmp_path / "seen.png", "dog", "cross L1H2", padding=padding)
        assert written.read_bytes() == rendered(drawn, dpi=DPI)


def test_a_recording_without_silence_is_shown_as_it_is(whisper, minilm):
    processor = SpeechAndText(minilm.tokenizer)
    trace = regard.trace(whisper, audio=np.tile(WAVE, 2), processor=processor, target="a dog runs")
    assert trace.without_padding() is trace


def test_without_a_tokenizer_the_tokens_that_a_model_writes_are_ids(whisper):
    extractor = transformers.WhisperFeatureExtractor(feature_size=80, chunk_length=2)
    inputs = extractor(WAVE, sampling_rate=16_000, return_tensors="pt")
    trace = regard.trace(whisper, audio=WAVE, processor=extractor, new_tokens=3)
    ids = whisper.generate(**inputs, max_new_tokens=3, do_sample=False)[0].tolist()
    written = [token.text for token in trace.target[1:]]
    assert written == [f"[{number}]" for number in ids]
    assert len(written) == len(trace.written) == 3
    assert refusal(InputError, regard.trace, whisper, audio=WAVE, processor=extractor, target="hello") == (
        "a target needs a tokenizer; give tokenizer=…, or a processor that has one."
    )


def test_what_is_no_recording_of_one_channel_is_refused(whisper, minilm):
    processor = SpeechAndText(minilm.tokenizer)
    hole = np.where(np.arange(16_000) == 1_234, np.nan, WAVE)
    for audio, message in (
        (WAVE[:0], "the recording is empty; give at least one sample."),
        (hole, "sample 1,234 of the recording is nan; give finite numbers."),
        (
            (WAVE * 2**15).astype(np.int16),
            "the recording has numbers of type int16; give floating-point numbers from -1 to 1, for instance audio / "
            "2**15 of numbers of 16 bits.",
        ),
    ):
        assert refusal(InputError, regard.trace, whisper, audio=audio, processor=processor, target="a") == message


def test_a_text_beside_a_recording_is_refused(whisper, minilm):
    processor = SpeechAndText(minilm.tokenizer)
    assert refusal(InputError, regard.trace, whisper, "a dog", audio=WAVE, processor=processor, new_tokens=2) == (
        "a trace of a recording has no text beside it; leave the text out. The text of a decoder is target=…; "
        "regard.watching(model) records the attention of a model that reads both, without tokens."
    )


def test_the_encoder_of_whisper_alone_needs_no_target(whisper):
    """A classifier of recordings has the configuration of the whole model."""
    config = transformers.WhisperConfig(
        vocab_size=97, d_model=24, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=37,
        max_source_positions=100, num_labels=3, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1,
    )  # fmt: skip
    classifier = sharp(transformers.WhisperForAudioClassification(config))
    extractor = transformers.WhisperFeatureExtractor(feature_size=80, chunk_length=2)
    expected = eager_outputs(classifier, extractor(WAVE, sampling_rate=16_000, return_tensors="pt")).attentions
    for model in (classifier, classifier.encoder):
        trace = regard.trace(model, audio=WAVE, processor=extractor)
        assert (trace.kinds, trace.tokens[50].text) == (("encoder",), "1.00s")
        assert_weights(trace.encoder, expected, rtol=1e-3, atol=1e-5)
        assert refusal(InputError, regard.trace, model, audio=WAVE, processor=extractor, target="a") == (
            f"{type(model).__name__} reads no target; leave it out."
        )


@pytest.mark.parametrize("kind", ["Moonshine", "SpeechEncoderDecoder"])
def test_the_times_of_tokens_do_not_drift_if_the_strides_are_not_in_the_configuration(kind, minilm):
    """A click changes the token at its time, also at the end of a recording of 4 seconds."""
    sizes = {"hidden_size": 24, "intermediate_size": 37, "vocab_size": 30522}
    if kind == "Moonshine":
        numbers = {f"{side}_num_{name}": 2 for side in ("encoder", "decoder") for name in ("hidden_layers",)}
        numbers |= {f"{side}_num_attention_heads": 4 for side in ("encoder", "decoder")}
        config = transformers.MoonshineConfig(**sizes, **numbers, decoder_start_token_id=101, bos_token_id=101)
        model, step = sharp(transformers.MoonshineForConditionalGeneration(config)), 0.024
    else:
        encoder = transformers.Wav2Vec2Config(
            hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37,
            num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, feat_extract_norm="layer",
        )  # fmt: skip
        decoder = transformers.TrOCRConfig(
            vocab_size=30522, d_model=24, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=37,
            cross_attention_hidden_size=24,
        )  # fmt: skip
        config = transformers.SpeechEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
        config.decoder_start_token_id, config.pad_token_id = 101, 0
        model, step = sharp(transformers.SpeechEncoderDecoderModel(config)), 0.02
    processor = transformers.Wav2Vec2Processor(
        transformers.Wav2Vec2FeatureExtractor(do_normalize=False), minilm.tokenizer
    )
    wave = np.random.default_rng(0).normal(scale=0.1, size=64_000).astype(np.float32)
    click = wave.copy()
    click[60_000:60_010] += 3  # at 3.75 seconds
    trace, other = (regard.trace(model, audio=audio, processor=processor, target="a dog") for audio in (wave, click))
    assert [token.place.start_seconds for token in trace.source] == pytest.approx(
        [step * n for n in range(len(trace.source))]
    )
    difference = (trace.encoder[0].key - other.encoder[0].key).abs().sum(dim=(0, 1, 3))
    most_changed = trace.source[int(difference.argmax())].place
    assert most_changed.start_seconds - step <= 3.75 <= most_changed.end_seconds + step


def test_what_whisper_writes_follows_the_tokens_of_its_language_and_task(whisper, minilm):
    """`generate` returns only what follows these tokens; the trace has the weights with which the model wrote it."""
    model, processor = copy.deepcopy(whisper), SpeechAndText(minilm.tokenizer)
    settings = {
        "is_multilingual": True, "lang_to_id": {"<|en|>": 2001}, "task_to_id": {"transcribe": 3001},
        "no_timestamps_token_id": 30_000, "language": "en", "task": "transcribe",
    }  # fmt: skip
    for name, value in settings.items():
        setattr(model.generation_config, name, value)
    trace = regard.trace(model, audio=WAVE, processor=processor, new_tokens=3)
    inputs = processor(WAVE, 16_000, "pt")
    written = model.generate(**inputs, max_new_tokens=3)
    assert written.shape == (1, 3)
    ids = torch.cat([torch.tensor([[101, 2001, 3001, 30_000]]), written], dim=1)
    assert [token.piece for token in trace.target] == minilm.tokenizer.convert_ids_to_tokens(ids[0])
    expected = eager_outputs(model, {**inputs, "decoder_input_ids": ids})
    assert_all_weights(trace, expected)
    assert [token.position for token in trace.written] == [4, 5, 6]
    probabilities = expected.logits[0].softmax(-1)
    for token in trace.written:
        probability = float(probabilities[token.position - 1, ids[0, token.position]])
        assert token.probability == pytest.approx(probability, rel=1e-4)  # eager attention rounds in another order


def test_a_recording_of_several_channels_is_refused(whisper, minilm):
    processor = SpeechAndText(minilm.tokenizer)
    assert refusal(InputError, regard.trace, whisper, audio=np.stack([WAVE] * 2), processor=processor, target="a") == (
        "the recording has shape [2, 16000]; give the numbers of one channel, [samples]."
    )


def test_a_recording_that_is_longer_than_the_model_reads_is_refused(whisper, minilm):
    processor = SpeechAndText(minilm.tokenizer)
    assert refusal(InputError, regard.trace, whisper, audio=np.tile(WAVE, 3), processor=processor, target="a") == (
        "the recording has 3.00 seconds and WhisperForConditionalGeneration reads 2.00; give a part of it, made for "
        "instance with: ffmpeg -i FILE -t 2.00 part.wav"
    )


def test_a_spectrogram_in_patches_is_refused(whisper):
    extractor = transformers.ASTFeatureExtractor(num_mel_bins=40)
    assert refusal(InputError, regard.trace, whisper, audio=WAVE, processor=extractor) == (
        "the tokens of WhisperForConditionalGeneration are not equal parts of the time of a recording, so no token has "
        "a place in it; regard.watching(model) records the attention without tokens."
    )


def test_pictures_for_a_model_of_text_or_speech_are_refused(minilm):
    advice = "give a model that does, such as ViT or Qwen2-VL."
    picture = np.zeros((8, 8, 3), dtype=np.uint8)
    for processor in (minilm.tokenizer, SpeechAndText(minilm.tokenizer), transformers.WhisperFeatureExtractor()):
        for text in ("a dog", None):
            assert refusal(InputError, regard.trace, minilm.model, text, images=picture, processor=processor) == (
                f"BertModel reads no images; {advice}"
            )
    assert refusal(InputError, regard.trace, minilm.model, video=[picture], processor=minilm.tokenizer) == (
        f"BertModel reads no videos; {advice}"
    )
