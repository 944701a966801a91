"""Tests of traces made for a page: with hidden vectors, or without for long texts and models that do not allow it."""

import copy
from dataclasses import replace

from torch.testing import assert_close

from regard.tracing import run
from regard.tracing.for_page import MOST_CHARACTERS, trace_for_page

TEXT = "The snake is very dangerous because it has a venom."


def test_hidden_vectors_are_kept(minilm, snake):
    found = trace_for_page(minilm.model, TEXT, tokenizer=minilm.tokenizer)
    assert_close(found.states["encoder"][5].after, found.output[0])
    assert_close(found["L3H1"].weights, snake["L3H1"].weights)


def test_a_long_text_has_none(minilm):
    text = "word " * (MOST_CHARACTERS // 5)
    short = trace_for_page(minilm.model, text.strip(), tokenizer=minilm.tokenizer, truncate=True)
    long = trace_for_page(minilm.model, text + "!", tokenizer=minilm.tokenizer, truncate=True)
    assert short.states is not None
    assert long.states is None


def test_a_model_whose_layers_cannot_be_taken_apart_has_none(minilm):
    model = copy.deepcopy(minilm.model)
    model.encoder.layer[2].feed_forward_chunk = lambda hidden: hidden.tanh()
    found = trace_for_page(model, TEXT, tokenizer=minilm.tokenizer)
    assert found.states is None
    assert len(found.encoder) == 6


def test_a_model_whose_layers_cannot_be_taken_apart_is_loaded_once(minilm, monkeypatch):
    model, loads = copy.deepcopy(minilm.model), []
    model.encoder.layer[2].feed_forward_chunk = lambda hidden: hidden.tanh()
    monkeypatch.setattr(run, "load", lambda *names, **options: loads.append(names) or replace(minilm, model=model))
    assert trace_for_page("MiniLM", TEXT).states is None
    assert len(loads) == 1
