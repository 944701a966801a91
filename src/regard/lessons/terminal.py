"""The attention that a lesson shows, in the terminal: only the numbers of which the lesson's text speaks."""

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING

from rich.console import Console, Group

from regard.by_hand.work_out import work_out, worked_example
from regard.by_hand.worked_attention import Stage, WorkedAttention
from regard.lessons.lesson import Language, Lesson
from regard.views.korean import korean
from regard.views.terminal.matrices import show as show_matrices

if TYPE_CHECKING:
    from regard.tracing.trace import Trace

TRANSLATED: dict[Language, Callable[[str], str]] = {"en": str, "ko": korean}
"""By language: a function that translates the English texts of the views."""

TEMPERATURES = (4.0, 1.0, 0.25, 0.0)
"""The temperatures at which the lesson on temperatures prints the weights."""


def show_attention(lesson: Lesson, traced: "Trace | None", language: Language) -> None:
    """Print the attention of a lesson.

    `traced` is MiniLM's trace of the lesson's sentence, or None if the lesson has no sentence.
    """
    if lesson.example is not None:
        show_matrices(worked_for_terminal(lesson.example, lesson.terminal), translated=TRANSLATED[language])
    elif traced is not None:
        show_sentence(traced, lesson, TRANSLATED[language])
    elif lesson.page is not None:
        show_alignment(lesson.page, TRANSLATED[language])


def show_alignment(page: str, translated: Callable[[str], str]) -> None:
    """Print the word alignment of the translation in `page`, a file in the folder `texts`."""
    from torch import tensor

    from regard.views.alignment import alignment_table
    from regard.views.terminal.trace import shades_legend

    data = json.loads(files(__package__).joinpath("texts", page).read_text(encoding="utf-8"))
    (aligned,) = data["alignment"]["candidates"]
    table = alignment_table(aligned["source_words"], aligned["target_words"], tensor(aligned["weights"]))
    Console(highlight=False).print(table, "", translated(shades_legend()), sep="\n")


def worked_for_terminal(example: str, terminal: str | None) -> WorkedAttention:
    """Return a worked example with the matrices that a lesson prints.

    If `terminal` is "column sums", keep the scores, and the weights with the sum of each column. If it is
    "temperatures", keep the scores, and the weights at each of TEMPERATURES. Otherwise, keep all matrices.
    """
    worked = worked_example(example)
    if terminal == "column sums":
        return replace(worked, stages=(worked["scores"], replace(worked["weights"], summed=True)))
    if terminal == "temperatures":
        weights = (weights_at(worked, temperature) for temperature in TEMPERATURES)
        return replace(worked, stages=(worked["scores"], *weights))
    return worked


def weights_at(worked: WorkedAttention, temperature: float) -> Stage:
    weights = work_out(worked.inputs.changed(temperature=temperature))["weights"]
    return replace(weights, formula=f"softmax(scores / {temperature:g})") if temperature else weights


def show_sentence(traced: "Trace", lesson: Lesson, translated: Callable[[str], str]) -> None:
    """Print the attention of MiniLM to a lesson's sentence.

    If `lesson.terminal` is "heads", print the largest weight of the lesson's query on another word: a list of
    `N_LISTED` heads, and a grid of all heads. If it is "cut", print the query's weights before and after the most
    attended key is masked. Otherwise, print the query's largest weights.
    """
    from regard.tracing.focus import focus_on
    from regard.views.shared_text import CAUTION
    from regard.views.terminal import trace as trace_view

    focus, console = focus_on(traced, lesson.token, lesson.head), Console(highlight=False)
    name, token = focus.head.name, focus.token.text
    console.print(trace_view.title(traced, focus, translated), "", sep="\n")
    if lesson.terminal == "heads":
        console.print(Group(*trace_view.other_heads(traced, focus, trace_view.N_LISTED, translated)))
    elif lesson.terminal == "cut":
        show_cut(traced, lesson, focus.head.top(focus.query, 1)[0].position, console, translated)
    else:
        console.print(
            translated(f"{token} looks, in {name}, at"), trace_view.key_table(focus, trace_view.N_LISTED), sep="\n"
        )
    console.print("", translated(CAUTION), sep="\n", style="dim")


def show_cut(traced: "Trace", lesson: Lesson, key: int, console: Console, translated: Callable[[str], str]) -> None:
    """Print the weights of a lesson's query before and after the key at position `key` is masked."""
    from rich.table import Table

    from regard.effects.changes import Cut
    from regard.tracing.run import trace

    assert lesson.head is not None
    assert lesson.token is not None
    key_text = traced.tokens[key].text
    changed = trace("MiniLM", lesson.sentence, changes=[Cut(lesson.token, key_text, heads=[lesson.head])])
    table = Table.grid(padding=(0, 0, 0, 3))
    table.add_column()
    for _ in range(2):
        table.add_column(justify="right")
    headings = f"{lesson.token} looks, in {lesson.head}, at", "before", f"without {lesson.token} → {key_text}"
    table.add_row(*map(translated, headings))
    weights_before = traced[lesson.head][lesson.token].tolist()
    weights_after = changed[lesson.head][lesson.token].tolist()
    for token, before, after in zip(traced.tokens, weights_before, weights_after, strict=True):
        table.add_row(
            f"  {token.text}", f"{before:.3f}", translated("cut") if token.text == key_text else f"{after:.3f}"
        )
    console.print(table)
