"""How much of a clean run each head restores, against a loop over hooks on eager models."""

import pytest
import torch
from hooked_heads import CLEAN, CORRUPTED, OTHER_TARGET, TARGET, bert, by_hooks, gpt2, marian, output_of, traced
from pictures import texts
from refusals import refusal
from torch.testing import assert_close

import regard
from regard import InputError, LogitDifference, indirect_effects
from regard.views.picture.comparison import comparison_figure
from regard.views.picture.indirect_effects import effects_figure

EXACT = {"rtol": 1e-8, "atol": 1e-8}
"""The tolerance in float64; an effect is a quotient of differences of outputs."""


def expected_effects(model, tokenizer, paths, metric, pairs=None):
    """The effect of each head, by hooks on the inputs of output projections, which have these paths."""
    runs = (CLEAN, TARGET), (CORRUPTED, OTHER_TARGET)
    clean, corrupted = (metric(output_of(model, tokenizer, *run)) for run in runs)
    rows = [[metric(by_hooks(model, tokenizer, f"H{head}", path, pairs)) for head in range(4)] for path in paths]
    return (torch.tensor(rows, dtype=torch.float64) - corrupted) / (clean - corrupted)


def test_a_language_model_is_measured_by_the_logits_of_two_tokens(tokenizer):
    model = gpt2()
    clean = traced(model, tokenizer, CLEAN, "")
    found = indirect_effects(model, CORRUPTED, clean, tokenizer=tokenizer)
    best = [int(output_of(model, tokenizer, text, "")[0, -1].argmax()) for text in (CLEAN, CORRUPTED)]
    assert best[0] != best[1]

    def difference(output):
        return float(output[0, -1, best[0]] - output[0, -1, best[1]])

    paths = [f"transformer.h.{layer}.attn.c_proj" for layer in range(3)]
    assert found.metric == LogitDifference(*best)
    assert found.layers == (("decoder", 0), ("decoder", 1), ("decoder", 2))
    assert_close(found.heads, expected_effects(model, tokenizer, paths, difference), **EXACT)
    assert found.clean == pytest.approx(difference(clean.output), rel=1e-12)
    assert found.heads.abs().min() > 1e-6
    name, largest = found.largest(1)[0]
    row, head = divmod(int(found.heads.abs().argmax()), 4)
    assert (name, largest) == (f"L{row}H{head}", float(found.heads[row, head]))
    assert repr(found).startswith(f"IndirectEffects({CLEAN!r} | {CORRUPTED!r}, model=")


def test_another_model_is_measured_by_the_distance_of_its_output(tokenizer):
    model = bert()
    clean = traced(model, tokenizer, CLEAN, "")
    found = indirect_effects(model, CORRUPTED, clean, tokenizer=tokenizer, tokens={"horse": "snake", -1: -1})

    def closeness(output):
        return -float((output - output_of(model, tokenizer, CLEAN, "")).pow(2).sum().sqrt())

    paths = [f"encoder.layer.{layer}.attention.output.dense" for layer in range(3)]
    expected = expected_effects(model, tokenizer, paths, closeness, pairs=[(2, 2), (-1, -1)])
    assert_close(found.heads, expected, **EXACT)
    assert (found.clean, repr(found.metric)) == (0.0, "OutputDistance()")


def test_heads_and_metric_can_be_chosen(tokenizer):
    model, reports = marian(), []
    clean = traced(model, tokenizer, CLEAN, TARGET)
    with regard.report_to(lambda done, total: reports.append((done, total))):
        chosen = {"heads": ["cross", "encoder L1H2", "cross L0"], "metric": lambda output: float(output[0, 2, 5])}
        found = indirect_effects(model, CORRUPTED, clean, target=OTHER_TARGET, tokenizer=tokenizer, **chosen)
    assert reports == [(done, 9) for done in range(1, 10)]
    kinds = ["encoder", "encoder", "decoder", "cross", "decoder", "cross"]
    assert found.layers == tuple(zip(kinds, [0, 1, 0, 0, 1, 1], strict=True))
    tried = torch.zeros(6, 4, dtype=torch.bool)
    tried[[3, 5]] = tried[1, 2] = True
    assert torch.equal(~found.heads.isnan(), tried)
    paths = [f"model.decoder.layers.{layer}.encoder_attn.out_proj" for layer in range(2)]
    expected = expected_effects(model, tokenizer, paths, chosen["metric"])
    assert_close(found.heads[[3, 5]], expected, **EXACT)
    assert {name.split()[0] for name, _ in found.largest(9)} == {"cross", "encoder"}
    assert len(found.largest(24)) == 9


def test_terminal_and_picture_show_the_effects(tokenizer, tmp_path, capsys):
    model = gpt2()
    clean = traced(model, tokenizer, CLEAN, "")
    found = indirect_effects(model, CORRUPTED, clean, tokenizer=tokenizer, heads=["L1", "L2"])
    found.show()
    shown = capsys.readouterr().out
    row = next(line for line in shown.splitlines() if line.strip().startswith("L2 "))
    assert [int(number) for number in row.split()[1:]] == [round(100 * float(effect)) for effect in found.heads[2]]
    name, largest = found.largest(1)[0]
    assert f"{name}  {largest:6.3f}" in shown
    figure = effects_figure(found)
    grid = next(image for axes in figure.axes for image in axes.images if image.get_gid() == "heads")
    assert_close(torch.tensor(grid.get_array().filled(torch.nan)), found.heads, equal_nan=True)
    white, colours = grid.cmap(grid.norm(0.0)), [grid.cmap(grid.norm(sign * abs(largest))) for sign in (1, -1)]
    assert min(white[:3]) > 0.98
    assert (colours[0][2] > colours[0][0], colours[1][0] > colours[1][2]) == (True, True)  # blue and orange
    assert {name, f"{largest:.3f}", f"{abs(largest):.3g}", f"{-abs(largest):.3g}"} <= set(texts(figure))
    assert " ".join(" ".join(texts(figure)).split()).count("Grey: not tried.") == 1  # layer 0
    assert found.figure(tmp_path / "effects.png").exists()


def test_pictures_say_what_grey_cells_are(tokenizer):
    model = marian(decoder_heads=6)
    clean = traced(model, tokenizer, CLEAN, TARGET)

    def caption(heads):
        options = {
            "target": OTHER_TARGET,
            "tokenizer": tokenizer,
            "heads": heads,
            "metric": lambda numbers: numbers[0, -1, 7],
        }
        return " ".join(" ".join(texts(effects_figure(indirect_effects(model, CORRUPTED, clean, **options)))).split())

    assert "Grey: no such head." in caption(None)  # the encoder has four heads, the decoder six
    assert "Grey: not tried, or no such head." in caption(["cross"])
    compared = texts(comparison_figure(regard.compare(clean, clean)))
    assert "Grey: no such head." in " ".join(" ".join(compared).split())


def test_what_has_no_effects_is_refused(tokenizer):
    model = gpt2()
    clean = traced(model, tokenizer, CLEAN, "")

    def run(text=CORRUPTED, clean=clean, **arguments):
        return indirect_effects(model, text, clean, tokenizer=tokenizer, **arguments)

    def zero(output):
        return 0.0

    assert refusal(InputError, run, metric=zero) == (
        "the metric is 0 in both runs, so there is no difference to restore."
    )
    assert refusal(InputError, run, heads=["L3"]) == (
        "no heads 'L3' in this model; its last layer is decoder L2 of 4 heads."
    )
    assert refusal(TypeError, run, heads="L1") == "heads='L1' is not a list of heads; give heads=['L1']."
    assert refusal(TypeError, run, clean=CLEAN) == (
        "clean is a str; it takes the trace of the clean text: regard.trace(model, text)."
    )
    assert refusal(InputError, run, "the black horse has a mane") == (
        "Interchange('decoder L0H0', …): the other run has 7 tokens and this one 8; give tokens=… that are in both."
    )
    assert refusal(InputError, run, metric=LogitDifference("venomous", "mane")) == (
        "LogitDifference(token='venomous', other='mane'): 'venomous' is 2 tokens here, ['venom', '##ous']; "
        "give one token."
    )
    best = int(clean.output[0, -1].argmax())
    (piece,) = tokenizer.convert_ids_to_tokens([best])
    assert refusal(InputError, run, CLEAN) == (
        f"both runs predict the token {piece!r}, id {best}; name the tokens whose logits are to be compared: "
        "metric=LogitDifference(token, other)."
    )
    ids = torch.tensor([[1996, 7488, 2038]])
    of_ids = regard.trace(model, ids)  # without a tokenizer
    best = int(of_ids.output[0, -1].argmax())
    assert refusal(InputError, indirect_effects, model, ids, of_ids) == (
        f"both runs predict the token '[{best}]', id {best}; name the tokens whose logits are to be compared: "
        "metric=LogitDifference(token, other)."
    )
    encoder = bert()
    longer, options = traced(encoder, tokenizer, "the black snake has a venom", ""), {"tokens": {"horse": "snake"}}
    assert refusal(InputError, indirect_effects, encoder, CORRUPTED, longer, tokenizer=tokenizer, **options) == (
        "the outputs of the clean run and of the corrupted run have shapes [8, 24] and [7, 24], which have "
        "no distance; give metric=…, a function of the output."
    )


def test_tokens_of_a_logit_difference_are_texts_or_ids(tokenizer):
    model = gpt2()
    clean = traced(model, tokenizer, CLEAN, "")
    ids = tokenizer.convert_tokens_to_ids(["venom", "mane"])
    named, numbered = (
        indirect_effects(model, CORRUPTED, clean, tokenizer=tokenizer, heads=["L2"], metric=LogitDifference(*tokens))
        for tokens in (("venom", "mane"), ids)
    )
    assert torch.equal(named.heads[2], numbered.heads[2])
    assert named.clean == float(clean.output[0, -1, ids[0]] - clean.output[0, -1, ids[1]])
