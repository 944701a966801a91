"""Traces to be damaged: with queries and keys, of a picture, of a sound, with statistics, with the layers' vectors."""

import torch
from transformers import BertConfig, BertModel, BertTokenizer

import regard
from regard import Ask, Causal, Cut, RelativeBias, ScaledDot, Sharpen, Softmax, Trace, attend
from regard.attention.masks import Padding, Window
from regard.tracing.generation import WrittenToken
from regard.tracing.tokens.places import Frame, Patch
from regard.tracing.tokens.readable_tokens import Token

TRACE = "t.safetensors"


def trace_of(source, target=(), **fields):
    """Return a trace of these tokens with three kinds of masks and scores.

    It has encoder attention alone, or also decoder and cross-attention if there are target tokens.
    """
    torch.manual_seed(0)
    n, m = len(source), len(target)
    query, key, value = torch.randn(1, 4, n, 8), torch.randn(1, 2, n, 8), torch.randn(1, 2, n, 3)
    bias = RelativeBias(4, n_buckets=4, max_distance=5)
    attended = {
        "encoder": {
            0: attend(query, key, value, mask=Window(2, 1) & Padding(torch.tensor([n - 1]))),
            1: attend(query, key, value, score=ScaledDot(bias=bias), normalise=Softmax(sinks=torch.zeros(4))),
        }
    }
    if target:
        asked = torch.randn(1, 4, m, 8)
        attended["decoder"] = {0: attend(asked, torch.randn(1, 4, m, 8), torch.randn(1, 4, m, 3), mask=Causal())}
        attended["cross"] = {0: attend(asked, key, value)}
    usual = {"model": "m", "text": "a", "target_text": ""}
    return Trace(**usual | fields, source=source, target=target, attended=attended)


def words(letters):
    return tuple(Token(text=word, piece=word) for word in letters)


def write_trace(folder):
    written = (WrittenToken(1, words("y")[0], 0.5, (("y", 0.5), ("z", 0.25))),)
    trace_of(words("abcdefg"), words("xyz"), target_text="b", written=written).save(folder / TRACE)


def write_picture_trace(folder):
    patches = [Token(text=f"{r},{c}", piece="p", place=Patch(0, r, c, 4.0, 4.0)) for r in range(2) for c in range(3)]
    trace_of((Token("[CLS]", "[CLS]", special=True), *patches), images=(torch.rand(3, 8, 12),)).save(folder / TRACE)


def write_sound_trace(folder):
    frames = tuple(Token(text=f"{n}s", piece="f", place=Frame(n + 0.0, n + 1.0)) for n in range(5))
    trace_of(frames, spectrogram=torch.rand(7, 20)).save(folder / TRACE)


def tiny_bert(folder):
    """A BERT of two layers in a folder of transformers; return it with its tokenizer."""
    torch.manual_seed(0)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "##s", "on", "a", "mat", "."]
    tokenizer = BertTokenizer(vocab={piece: number for number, piece in enumerate(pieces)})
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 29}
    model = BertModel(BertConfig(vocab_size=len(pieces), max_position_embeddings=32, **sizes)).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer


def write_answered_trace(folder):
    model, tokenizer = tiny_bert(folder / "model")
    groups = torch.tensor([[True] * 3 + [False] * 5, [False] * 3 + [True] * 5])
    ask = Ask(received=True, entropy=True, top=3, pooled=(4, 4), groups=groups)
    regard.trace(model, "the cat sat on a mat", tokenizer=tokenizer, ask=ask).save(folder / TRACE)


def write_trace_with_states(folder):
    model, tokenizer = tiny_bert(folder / "model")
    changes = [Cut("cat", "the", heads=["L0H1"]), Sharpen("L1H1", temperature=0.5)]
    seen = regard.trace(model, "the cat sat", tokenizer=tokenizer, changes=changes, keep=("hidden",))
    seen.save(folder / TRACE)


def show_trace(folder):
    """Load a trace and do what a user would do with it."""
    trace = Trace.load(folder / TRACE)
    trace.check()
    repr(trace)
    trace.show()
    trace.html(folder / "t.html")
    for head in trace.heads(trace.kinds[-1])[:2]:
        head.pattern.summary(top=1)
        repr(head)


def show_statistics(folder):
    trace = Trace.load(folder / TRACE)
    repr(trace)
    for pattern in trace.encoder.values():
        repr(pattern)
        pattern.received()
        pattern.entropy()
        pattern.top(3)
        pattern.pooled(4, 4)


def show_states(folder):
    trace = Trace.load(folder / TRACE)
    trace.html(folder / "t.html")
    trace.roles()
    trace.words()
    trace.rollout(1)
    if trace.states is not None:
        trace.movement(1)
        trace["L0H0"].contributions(1)
