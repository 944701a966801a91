"""`regard look`: its files, its refusals, its agreement with the pattern."""

import json
import wave
from dataclasses import replace

import numpy as np
import pytest
from cli_runner import invoke, output, refused
from PIL import Image
from torch.testing import assert_close
from transformers import GPT2Config, GPT2LMHeadModel, SwinConfig, SwinModel, ViTConfig, ViTImageProcessorPil, ViTModel

from regard.cli.media_files import frames_per_second, read_frames, read_picture
from regard.tracing.media.wave_file import read_wave
from regard.translation.translator import Translator

SNAKE = "The snake is very dangerous because it has a venom."

pytestmark = pytest.mark.usefixtures("minilm_once")


def look(*arguments, text=None):
    return output("look", *arguments, text=text)


def test_a_text_from_standard_input_is_read():
    text = look("-", "--token", "it", "--head", "L3H1", text=SNAKE + "\n")
    assert "6 layers × 12 heads · 13 tokens" in text
    assert "snake  0.674" in text


def test_korean_and_markup_are_shown_as_they_are():
    text = look("뱀은 <script>alert(1)</script> 위험하다.", "--token", "script")
    assert "<script>alert(1)</script>" in text
    assert "('script' occurs twice; this is script:1)" in text


def test_every_kind_of_file_is_written(tmp_path):
    paths = {ending: tmp_path / f"snake.{ending}" for ending in ("html", "png", "svg", "pdf", "json")}
    options = [word for ending, path in paths.items() for word in (f"--{ending}", str(path))]
    text = look("It is a snake.", "--token", "it", *options)
    assert [line for line in text.splitlines() if line.startswith("wrote")] == [f"wrote {p}" for p in paths.values()]
    starts = {"html": b"<!doctype html>", "png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "json": b"{"}
    assert all(path.read_bytes().lower().startswith(starts[ending].lower()) for ending, path in paths.items())


def test_every_heads_pattern_as_a_picture(tmp_path, translator_folder):
    sizes = []
    for options in ((), ("--layer", "1")):
        path = tmp_path / f"heads{len(options)}.png"
        assert look("no dog", "--model", translator_folder, *options, "--heads", path).endswith(f"\nwrote {path}\n")
        picture = path.read_bytes()
        assert picture.startswith(b"\x89PNG")
        sizes.append((picture[16:20], picture[20:24]))
    assert sizes[0] != sizes[1]


def test_json_has_every_weight(tmp_path, snake):
    path = tmp_path / "snake.json"
    look(SNAKE, "--token", "it", "--head", "L3H1", "--json", path)
    document = json.loads(path.read_text())
    assert document["focus"]["token"] == "it"
    assert document["queries"] == [token.text for token in snake.tokens]
    assert list(document["weights"]) == ["L3H1"]
    assert_close(snake["L3H1"].weights.double(), snake["L3H1"].weights.new_tensor(document["weights"]["L3H1"]).double())
    assert document["focus"]["weights"][2] == pytest.approx(0.674, abs=5e-4)


def test_json_of_all_heads_or_of_a_layer_and_nothing_else_on_standard_output(tmp_path):
    html = tmp_path / "a.html"
    assert len(json.loads(look("a snake", "--json", "-", "--html", html))["weights"]) == 72
    assert html.is_file()
    assert len(json.loads(look("a snake", "--json", "-", "--layer", "2"))["weights"]) == 12


def test_json_on_standard_output_beside_an_error_stream_that_is_a_terminal(monkeypatch):
    expected = json.loads(look("a snake", "--json", "-"))
    monkeypatch.setenv("FORCE_COLOR", "1")  # for rich, the error stream is a terminal now
    result = invoke("look", "a snake", "--json", "-")
    assert json.loads(result.stdout) == expected
    assert "reading" in result.stderr


def test_too_many_weights_for_json_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.views.json_text.MAX_WEIGHTS", 1000)
    assert refused("look", SNAKE, "--json", tmp_path / "a.json") == (
        "72 heads have 12,168 weights, more than the 1,000 that one JSON file takes; "
        "choose one head with --head or the heads of one layer with --layer."
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([""], "the text is empty; give at least one word to look at."),
        ([SNAKE, "--token", "itt"], "no token 'itt' in the text; nearest: it, is."),
        ([SNAKE, "--layer", "6"], "no layer 6 to look at: layers run from 0 to 5; nearest: 5."),
        ([SNAKE, "--target", "le serpent"], "BertModel reads one text, so it takes no target."),
        ([SNAKE, "--png", "a.svg"], "--png writes a PNG file; a.svg does not end in .png."),
        (
            [SNAKE, "--heads", "a.gif"],
            "cannot tell what kind of picture a.gif is; its name must end in .png, .svg or .pdf.",
        ),
        (
            [SNAKE, "--html", "none/a.html"],
            "cannot write none/a.html: there is no folder none; make it first or name another file.",
        ),
        (
            [SNAKE, "--model", "a b/c"],
            "no model 'a b/c'; nearest: MiniLM; give a folder with a model in it or a name on the Hugging Face hub.",
        ),
    ],
)
def test_texts_heads_models_and_files_that_do_not_fit_are_refused(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused("look", *arguments) == message
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_writes_goes_on_with_the_text(tmp_path, minilm):
    config = GPT2Config(vocab_size=30522, n_layer=1, n_head=2, n_embd=8, bos_token_id=101, eos_token_id=102)
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "writer")
    minilm.tokenizer.save_pretrained(tmp_path / "writer")
    text = look("a dog", "--model", tmp_path / "writer", "--new-tokens", "3")
    assert "1 layer × 2 heads · 7 tokens" in text


def test_of_a_translator_the_translation_and_its_alignment_come_first(translator_folder):
    (found,) = Translator.load(translator_folder).translate(["a dog ran to the cat"])
    text = look("a dog ran to the cat", "--model", translator_folder)
    assert text.startswith(f"a dog ran to the cat → {found.text}\n\n")
    parts = " dog  ran ", "\naligned by the last layer but one", " · cross · "
    table, rule, model = map(text.index, parts)
    assert 0 < table < rule < model
    rows = {line.split()[0] for line in text[table:rule].splitlines()[1:] if line.strip()}
    assert rows == set(found.alignment.target_words)


def test_the_picture_of_a_translation_is_its_alignment_unless_a_head_is_chosen(translator_folder, tmp_path):
    found = Translator.load(translator_folder).translate(["a dog ran to the cat"])[0]
    for name, options in {"plain": [], "head": ["--head", "L1H1"], "layer": ["--layer", "1"]}.items():
        look("a dog ran to the cat", "--model", translator_folder, *options, "--png", tmp_path / f"{name}.png")
    plain, head, layer = ((tmp_path / f"{name}.png").read_bytes() for name in ("plain", "head", "layer"))
    assert plain == found.figure(tmp_path / "alignment.png").read_bytes()
    assert head == found.trace.figure(tmp_path / "trace.png", head="cross L1H1").read_bytes()
    assert layer != plain


def test_the_remarks_on_a_translation_are_printed(translator, tmp_path):
    texts = {"longest": 2, "smallest_ratio": 0.0, "largest_ratio": 99.0, "scripts": ["kana"]}
    folder = replace(translator, extra={"training_texts": texts}).save(tmp_path / "folder")
    result = invoke("look", "a dog ẞ", "--model", folder)
    (found,) = Translator.load(folder).translate(["a dog ẞ"])
    assert len(found.unlike) == 2
    remarks = "the translator does not know 'ẞ'", *found.unlike
    assert result.stderr.splitlines() == [f"regard: {remark}" for remark in remarks]


def test_a_translator_is_not_asked_for_new_tokens(translator_folder):
    assert refused("look", "no dog", "--model", translator_folder, "--new-tokens", "3") == (
        f"{translator_folder} is a translator, which always writes its whole translation; leave --new-tokens out."
    )


@pytest.fixture
def picture(tmp_path):
    Image.new("RGB", (40, 30), (200, 60, 30)).save(tmp_path / "red.png")
    return tmp_path / "red.png"


@pytest.fixture
def vit_folder(tmp_path):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    ViTModel(ViTConfig(**sizes, image_size=32, patch_size=8)).save_pretrained(tmp_path / "vit")
    ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path / "vit")
    return tmp_path / "vit"


def test_a_picture_is_read_by_a_model_of_pictures(tmp_path, picture, vit_folder):
    drawn = tmp_path / "seen.png"
    text = look("--image", picture, "--model", vit_folder, "--token", "1,2", "--head", "L0H1", "--png", drawn)
    assert "1 layer × 2 heads · 17 tokens" in text
    assert "1,2 looks, in L0H1, at" in text
    assert drawn.read_bytes().startswith(b"\x89PNG")


def test_one_stage_of_a_model_that_merges_patches_is_shown_and_a_remark_names_another(tmp_path, picture):
    sizes = {"image_size": 32, "embed_dim": 8, "depths": [2, 1], "num_heads": [1, 2], "window_size": 4}
    SwinModel(SwinConfig(**sizes)).save_pretrained(tmp_path / "swin")
    ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path / "swin")
    seen = invoke("look", "--image", picture, "--model", tmp_path / "swin", "--head", "L1H0")
    assert "2 layers × 1 head · 64 tokens" in seen.stdout
    assert seen.stderr == (
        "regard: layers 0 to 1 of 3 are shown: the others divide the picture into other patches; see them with "
        "--layer 2.\n"
    )
    assert "1 layer × 2 heads · 16 tokens" in look("--image", picture, "--model", tmp_path / "swin")


def test_several_pictures_are_read_together(picture, vit_folder):
    pictures = "--image", picture, "--image", picture
    text = look(*pictures, "--model", vit_folder, "--token", "1:1,2", "--head", "L0H1")
    assert "1 layer × 2 heads · 34 tokens" in text
    lines = [line.strip() for line in text.splitlines()]
    assert lines[lines.index("picture 0: 0") + 2].startswith("picture 1: 0.9")  # no grid of zeros


def test_the_frames_of_a_moving_picture_are_read(tmp_path, picture):
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
    first, *others = (Image.new("RGB", (8, 6), colour) for colour in colours)
    first.save(tmp_path / "clip.gif", save_all=True, append_images=others)
    frames = read_frames(tmp_path / "clip.gif")
    in_middle = [(frame.size, frame.convert("RGB").getpixel((3, 3))) for frame in frames]
    assert in_middle == [((8, 6), colour) for colour in colours]
    assert read_picture(tmp_path / "clip.gif").convert("RGB").getpixel((3, 3)) == (255, 0, 0)
    assert frames_per_second(tmp_path / "clip.gif") is None
    for suffix in ("gif", "webp", "png"):
        for durations, fps in ((500, 2.0), ([500, 500, 250], None)):
            first.save(tmp_path / f"timed.{suffix}", save_all=True, append_images=others, duration=durations)
            assert frames_per_second(tmp_path / f"timed.{suffix}") == fps
    advice = "write a video as frames with: ffmpeg -i FILE -vf fps=2 clip.gif."
    assert refused("look", "--video", picture, "--model", "m") == (
        f"{picture} is a picture without movement; give it with --image, or {advice}"
    )
    (tmp_path / "clip.mp4").write_bytes(b"no picture")
    assert refused("look", "--video", tmp_path / "clip.mp4", "--model", "m") == (
        f"cannot read the picture {tmp_path}/clip.mp4: cannot identify image file '{tmp_path}/clip.mp4'; {advice}"
    )


def test_a_recording_is_read_as_samples(tmp_path):
    samples = np.array([[0, 16384], [-32768, -16384]], dtype="<i2")
    with wave.open(str(tmp_path / "two.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(samples.tobytes())
    numbers, rate = read_wave(tmp_path / "two.wav")
    assert (numbers.tolist(), rate) == ([0.25, -0.75], 8000)


def test_pictures_and_recordings_that_cannot_be_read_are_refused(tmp_path, picture, vit_folder):
    assert refused("look") == ("there is nothing to look at; give a text, --image, --video or --audio.")
    assert refused("look", "--image", picture) == (
        "MiniLM reads text alone; name a model of pictures or recordings with --model."
    )
    assert refused("look", "--image", picture, "--audio", picture, "--model", vit_folder) == (
        "--image, --video and --audio cannot be read together; give one of them."
    )
    assert refused("look", "--image", tmp_path / "none.png", "--model", vit_folder) == (
        f"there is no file {tmp_path}/none.png; nearest: red.png."
    )
    advice = "write it as one with: ffmpeg -i FILE -ac 1 -ar 16000 -sample_fmt s16 speech.wav."
    assert refused("look", "--audio", picture, "--model", vit_folder) == f"{picture} is not a WAV file; {advice}"
    (tmp_path / "text.png").write_text("no picture")
    assert refused("look", "--image", tmp_path / "text.png", "--model", vit_folder) == (
        f"cannot read the picture {tmp_path}/text.png: cannot identify image file '{tmp_path}/text.png'."
    )
