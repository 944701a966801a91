"""bertviz and CircuitsVis, the packages themselves, take what a trace gives them.

Both are installed without their dependencies. Of these they need two modules here, which are replaced: the part of
IPython that shows HTML, and importlib_metadata, whose functions Python has itself.
"""

import importlib.metadata
import json
import sys
import types

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from transformers import LlamaConfig, LlamaModel, T5Config, T5ForConditionalGeneration

import regard

pytestmark = [  # bertviz leaves files of its own open
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class HTML:
    """IPython's object for HTML: it keeps what it is given."""

    def __init__(self, data):
        self.data = data


@pytest.fixture(autouse=True)
def modules_that_are_not_installed(monkeypatch):
    display = types.ModuleType("IPython.display")
    display.HTML = display.Javascript = HTML
    display.display = lambda shown: None
    ipython = types.ModuleType("IPython")
    ipython.display = display
    for name, module in (
        ("IPython", ipython),
        ("IPython.display", display),
        ("importlib_metadata", importlib.metadata),
    ):
        monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def bertviz(modules_that_are_not_installed):
    import bertviz

    return bertviz


@pytest.fixture
def circuitsvis(modules_that_are_not_installed):
    import circuitsvis.attention

    return circuitsvis.attention


def texts(tokens):
    return [token.text for token in tokens]


def weights_in(page):
    """Return the attention weights from the first JSON object in a page's script that contains some."""
    start = min(place for place in (page.find('{"attention"'), page.find('{"tokens"')) if place >= 0)
    return json.JSONDecoder().raw_decode(page[start:])[0]["attention"]


@pytest.mark.parametrize("view", ["head_view", "model_view"])
def test_bertviz_takes_the_patterns_of_a_trace(snake, bertviz, view):
    page = getattr(bertviz, view)(list(snake.encoder.values()), texts(snake.tokens), html_action="return")
    (shown,) = weights_in(page.data)
    assert_close(torch.tensor(shown["attn"]), torch.cat([pattern.dense() for pattern in snake.encoder.values()]))
    assert shown["left_text"] == texts(snake.tokens)


def test_bertviz_takes_the_attentions_of_an_installed_model(bertviz):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=30, hidden_size=24, intermediate_size=32, num_hidden_layers=3, num_attention_heads=4
    )
    model = regard.install(LlamaModel(config).eval())
    ids = torch.arange(7)[None]
    with torch.no_grad():
        attentions = model(input_ids=ids, output_attentions=True).attentions
        expected = LlamaModel._from_config(config, attn_implementation="eager")
        expected.load_state_dict(model.state_dict())
        weights = expected.eval()(input_ids=ids, output_attentions=True).attentions
    page = bertviz.head_view(attentions, list("abcdefg"), include_layers=[0, 2], html_action="return")
    (shown,) = weights_in(page.data)
    assert_close(torch.tensor(shown["attn"]), torch.cat([weights[0], weights[2]]), atol=1e-5, rtol=1e-4)


def test_bertviz_takes_the_three_kinds_of_an_encoder_decoder(minilm, bertviz):
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=30522, d_model=24, d_kv=6, d_ff=32, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    model = T5ForConditionalGeneration(config).eval()
    trace = regard.trace(model, "The snake is.", target="It is.", tokenizer=minilm.tokenizer)
    page = bertviz.head_view(
        encoder_attention=list(trace.encoder.values()),
        decoder_attention=list(trace.decoder.values()),
        cross_attention=list(trace.cross.values()),
        encoder_tokens=texts(trace.source),
        decoder_tokens=texts(trace.target),
        html_action="return",
    )
    for shown, kind in zip(weights_in(page.data), (trace.encoder, trace.decoder, trace.cross), strict=True):
        assert_close(torch.tensor(shown["attn"]), torch.cat([pattern.dense() for pattern in kind.values()]))


def test_circuitsvis_takes_the_heads_of_a_layer_and_the_weights_of_a_head(snake, circuitsvis):
    tokens = texts(snake.tokens)
    expected = snake.encoder[3].dense()[0]
    for page in (
        circuitsvis.attention_heads(attention=snake.encoder[3][0], tokens=tokens),
        circuitsvis.attention_patterns(attention=np.asarray(snake.encoder[3][0]), tokens=tokens),
    ):
        assert_close(torch.tensor(weights_in(page.cdn_src)), expected)
        assert str(expected[0, 0, 0].item()) in page.local_src
    page = circuitsvis.attention_pattern(attention=snake["L3H1"].weights, tokens=tokens)
    assert_close(torch.tensor(weights_in(page.cdn_src)), expected[1])
    words = snake.words()
    page = circuitsvis.attention_pattern(attention=words["L3average"].weights, tokens=texts(words.tokens))
    assert_close(torch.tensor(weights_in(page.cdn_src)).sum(dim=-1), torch.ones(len(words.tokens)))
