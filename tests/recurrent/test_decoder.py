"""Tests of the whole recurrent model against the papers' equations, computed cell by cell in float64."""

import itertools
import math
from typing import get_args

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.recurrent.config import Form, ScoreName

SOURCES = [[5, 7, 3, 30, 11], [2, 2, 9], [6, 29, 4, 8, 1, 13, 3]]
TARGETS = [[2, 13, 5, 36, 7, 3], [2, 35, 5, 5, 21, 4], [2, 17, 1, 1, 9, 8]]


class Cell:
    """One layer in one direction as a single cell with the parameters of a model; the memory of a GRU is None."""

    def __init__(self, layers, name):
        kind = nn.LSTMCell if isinstance(layers, nn.LSTM) else nn.GRUCell
        self.cell = kind(*(getattr(layers, f"weight_ih{name}").shape[1], layers.hidden_size)).double()
        with torch.no_grad():
            for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                getattr(self.cell, part).copy_(getattr(layers, part + name))

    def __call__(self, x, state):
        """Return (state, memory) of the cell after one more input."""
        if isinstance(self.cell, nn.GRUCell):
            return self.cell(x[None], state[0][None])[0], None
        state, memory = self.cell(x[None], (state[0][None], state[1][None]))
        return state[0], memory[0]

    def read(self, xs):
        """Return the state after each input, and the last (state, memory)."""
        nothing, states = torch.zeros(self.cell.hidden_size, dtype=torch.float64), []
        state = nothing, nothing
        for x in xs:
            state = self(x, state)
            states.append(state[0])
        return states, state


def encoded(encoder, source):
    """The encoder's states, and for each layer the final (state, memory) of both directions, concatenated."""
    xs, last = [encoder.embedding.weight[token] for token in source], []
    for layer in range(encoder.cells.layers.num_layers):
        forward, end = Cell(encoder.cells.layers, f"_l{layer}").read(xs)
        backward, start = Cell(encoder.cells.layers, f"_l{layer}_reverse").read(xs[::-1])
        xs = [torch.cat(both) for both in zip(forward, backward[::-1], strict=True)]
        last.append([None if a is None else torch.cat([a, b]) for a, b in zip(end, start, strict=True)])
    return xs, last


def score_of(reader, name, s, h, position, before):
    """The score of a decoder's state s with the encoder's state h at one position; `before`: the previous weights."""
    rule = reader.score
    if name == "location_aware":
        half = rule.filters.shape[1] // 2
        near = [before[position + k] if 0 <= position + k < len(before) else 0.0 for k in range(-half, half + 1)]
        f = torch.stack([sum(w * x for w, x in zip(row, near, strict=True)) for row in rule.filters])
        inner = rule.query_weight @ s + rule.key_weight @ h + rule.place_weight @ f + rule.bias
        return rule.vector @ torch.tanh(inner)
    return {
        "dot": lambda: s @ h,
        "scaled_dot": lambda: s @ h / math.sqrt(len(h)),
        "general": lambda: s @ rule.weight @ h,
        "additive": lambda: rule.vector @ torch.tanh(rule.query_weight @ s + rule.key_weight @ h),
        "concat": lambda: rule.vector @ torch.tanh(rule.weight @ torch.cat([s, h])),
        "cosine": lambda: rule.scale[0] * (s @ h) / (s.norm() * h.norm()),
        "location": lambda: rule.weight[position] @ s,
    }[name]()


def weights_of(model, s, states, t, before):
    """The attention weights of a decoder's state s at target token t; `before`: the previous weights."""
    reader, config, length = model.decoder.reader, model.config, len(states)
    scores = [score_of(reader, config.score, s, h, position, before) for position, h in enumerate(states)]
    if config.attention == "hard":
        best = max(range(length), key=lambda position: float(scores[position]))
        return torch.tensor([float(position == best) for position in range(length)], dtype=torch.float64)
    centre, spread = float(t), None
    if config.attention == "local_p":
        network = reader.centre
        v, w = network.place.weight[0], network.hidden.weight
        centre, spread = length * torch.sigmoid(v @ torch.tanh(w @ s)), config.reach / 2
    near = [
        config.attention in ("soft", "hard") or abs(position - float(centre)) <= config.reach
        for position in range(length)
    ]
    powers = [torch.exp(x) if seen else torch.zeros_like(x) for x, seen in zip(scores, near, strict=True)]
    weights = torch.stack(powers) / sum(powers)
    if spread is not None:
        weights = weights * torch.exp(-((torch.arange(length) - centre) ** 2) / (2 * spread**2))
    return weights


def decoded(model, source, target):
    """Return the logits after each token of a target, and the attention weights of each token."""
    config, decoder = model.config, model.decoder
    states, last = encoded(model.encoder, source)
    bridges = iter(decoder.bridges)
    parts = [
        [torch.tanh(next(bridges)(layer[part])) for layer in last] for part in range(len(decoder.bridges) // len(last))
    ]
    hidden = [(parts[0][n], parts[1][n] if len(parts) > 1 else None) for n in range(len(last))]
    output, weights = torch.zeros(config.d_model).double(), torch.zeros(len(source)).double()
    cells = [Cell(decoder.cells.layers, f"_l{n}") for n in range(config.n_layers)]

    def step(x):
        for n, cell in enumerate(cells):
            hidden[n] = cell(x, hidden[n])
            x = hidden[n][0]
        return x

    logits, rows = [], []
    for t, token in enumerate(target):
        e = decoder.embedding.weight[token]
        if config.form == "bahdanau":
            weights = weights_of(model, hidden[-1][0], states, t, weights)
            a = sum(w * h for w, h in zip(weights, states, strict=True))
            v = torch.cat([a, step(torch.cat([e, a])), e])
        else:
            s = step(torch.cat([e, output]) if config.form == "luong_feeding" else e)
            weights = weights_of(model, s, states, t, weights)
            v = torch.cat([sum(w * h for w, h in zip(weights, states, strict=True)), s])
        output = torch.tanh(decoder.combine.weight @ v + decoder.combine.bias)
        logits.append(decoder.to_logits.weight @ output + decoder.to_logits.bias)
        rows.append(weights)
    return torch.stack(logits), torch.stack(rows)


FORMS, SCORES = get_args(Form), get_args(ScoreName)
CASES = [
    *({"form": form, "score": score} for form, score in zip(itertools.cycle(FORMS), SCORES, strict=False)),
    *({"form": form, "attention": "local_m"} for form in FORMS),
    *({"form": form, "attention": "hard"} for form in FORMS),
    *(
        {"form": form, "score": "location_aware", "attention": "local_p", "cell": "gru", "share": "none"}
        for form in FORMS
    ),
]
"""Each score in one form; each kind of attention in every form, local_p with the score that needs the previous step."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: ", ".join(case.values()))
def test_the_model_equals_the_equations(loud, case):
    model = loud(**case)
    lengths = torch.tensor([len(row) for row in SOURCES])
    source = torch.tensor([row + [0] * (7 - len(row)) for row in SOURCES])
    with torch.no_grad():
        predicted = model(source, lengths, torch.tensor(TARGETS))
        for row, (each, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
            logits, weights = decoded(model, each, target)
            assert_close(predicted.logits[row], logits, rtol=1e-9, atol=1e-9)
            assert_close(predicted.cross[0][row, 0, :, : len(each)], weights, rtol=1e-9, atol=1e-9)
