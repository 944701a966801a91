"""The lessons: their numbers are those of the attention that they show, and both languages say the same."""

import re

import numpy as np
import pytest
from cli_runner import output
from refusals import refusal

from regard.by_hand.inputs_file import built_in_inputs
from regard.by_hand.work_out import work_out
from regard.errors import InputError
from regard.lessons.lesson import NAMES, Lesson, read_lesson
from regard.tracing.model_loading import LoadedModel
from regard.tracing.run import trace

TEMPERATURES = {"temperature": (1.0, 4.0, 0.25)}
"""The temperatures at which a lesson tells weights; other lessons do so at 1."""


def decimals(one: Lesson, language: str) -> list[str]:
    """The numbers with a decimal point in the texts of a lesson."""
    said = one.texts[language]
    return re.findall(r"\d+\.\d+", " ".join([*said.text, *said.try_]))


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_have_the_same_parts_and_numbers(name: str) -> None:
    one = read_lesson(name)
    english, korean = one.texts["en"], one.texts["ko"]
    assert (len(english.text), len(english.try_)) == (len(korean.text), len(korean.try_))
    assert sorted(decimals(one, "en")) == sorted(decimals(one, "ko"))
    assert re.search("[가-힣]", korean.title)


@pytest.mark.parametrize("name", [name for name in NAMES if read_lesson(name).example])
def test_the_numbers_of_a_lesson_are_in_its_worked_example(name: str) -> None:
    one = read_lesson(name)
    assert one.example is not None
    numbers = built_in_inputs(one.example)
    matrices = []
    for temperature in TEMPERATURES.get(name, (1.0,)):
        stages = work_out(numbers.changed(temperature=temperature, causal=False)).stages
        matrices += [stage.matrix for stage in stages]
        matrices += [stage.matrix.sum(0) for stage in stages if stage.name == "weights"]
    shown = np.concatenate([np.ravel(matrix) for matrix in matrices])
    for text in decimals(one, "en"):
        places = len(text.split(".")[1])
        assert np.abs(shown - float(text)).min() <= 0.5001 * 10**-places or float(text) in TEMPERATURES.get(name, ()), (
            text
        )


@pytest.mark.parametrize(
    ("name", "edge", "weight"), [("model", ("it", "snake"), "0.674"), ("movement", ("Tower", "el"), "0.972")]
)
def test_the_weights_of_minilm(minilm: LoadedModel, name: str, edge: tuple[str, str], weight: str) -> None:
    one = read_lesson(name)
    assert weight in decimals(one, "en")
    seen = trace(minilm.model, one.sentence, tokenizer=minilm.tokenizer)
    assert one.head is not None
    assert f"{seen[one.head][edge]:.3f}" == weight


@pytest.mark.parametrize(
    "command", [c for name in NAMES for c in read_lesson(name).commands if c.startswith("regard explain")]
)
def test_the_worked_examples_that_lessons_name_exist(command: str) -> None:
    assert output(*command.split()[1:])


def test_a_lesson_has_a_name_and_a_number() -> None:
    assert read_lesson("5") == read_lesson("masks")


@pytest.mark.parametrize(("name", "near"), [("0", "looking-back"), ("maks", "masks"), ("query key", "query-key-value")])
def test_an_unknown_lesson_is_refused(name: str, near: str) -> None:
    assert refusal(InputError, read_lesson, name) == (
        f"no lesson {name!r}; nearest: {near}. There are looking-back, query-key-value, pattern, temperature, masks, "
        "heads, model, transformer, movement, explanation, translator, or 1 to 11."
    )
