"""Hebrew and Arabic in terminals that reorder letters: words stay in their columns, numbers after their words.

The browser stands for such a terminal: both reorder a line by Unicode's algorithm (UAX 9).
"""

import html
import io

import numpy as np
import pytest
from rich.console import Console
from rich.text import Text

from regard import Trace, attend
from regard.by_hand.example_inputs import ExampleInputs
from regard.by_hand.work_out import work_out
from regard.tracing.tokens.readable_tokens import Token
from regard.views.terminal.columns import Columns
from regard.views.terminal.matrices import show as show_matrices
from regard.views.terminal.number_text import printable, shortened
from regard.views.terminal.trace import show

WORDS = {"hebrew": ["הנחש", "מסוכן", "כי", "ארס"], "arabic": ["الأفعى", "خطيرة", "لأن", "سما"]}

PLACES = """() => [...document.querySelectorAll("pre > div")].map((line) => {
  const found = [], walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    for (const match of node.data.matchAll(/[^\\s\\u2068\\u2069]+/g)) {
      const range = document.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      found.push([range.getBoundingClientRect().left, match[0]]);
    }
  return found.sort((a, b) => a[0] - b[0]).map(([, word]) => word);
})"""


@pytest.fixture
def seen_lines(tab):
    """seen_lines(printed) returns the words of each line from left to right, as such a terminal shows them."""

    def read(printed):
        lines = "".join(f"<div dir=ltr>{html.escape(line)}</div>" for line in printed.splitlines())
        tab.set_content(f"<meta charset=utf-8><pre>{lines}</pre>")
        return tab.evaluate(PLACES)

    return read


def printed_by(show_it):
    console = Console(file=io.StringIO(), width=90, highlight=False)
    show_it(console)
    return console.file.getvalue()


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_the_heads_of_columns_stand_over_their_columns(words, seen_lines):
    rows = [[Text(f"{number}") for number in range(len(words))]]
    head, cells = seen_lines(printed_by(lambda console: console.print(Columns([words[0]], words, rows, gap=2))))
    assert head == words
    assert cells == [words[0], "0", "1", "2", "3"]


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_a_number_stands_after_its_word(words, seen_lines, normal):
    query, key, value = normal(1, 2, 4, 8), normal(1, 2, 4, 8), normal(1, 2, 4, 3)
    tokens = tuple(Token(word, word) for word in words)
    steps = {"encoder": {0: attend(query, key, value)}}
    trace = Trace(model="m", text=" ".join(words), target_text="", source=tokens, target=(), attended=steps)
    lines = seen_lines(printed_by(lambda console: show(trace, token=0, head="L0H1", console=console)))
    assert lines[2] == [words[0], "looks,", "in", "L0H1,", "at"]
    assert lines[4] == words[::-1]  # running text, from right to left
    top = [(words[key.position], f"{key.weight:.3f}") for key in trace["L0H1"].top(0, 4)]
    assert [tuple(line[:2]) for line in lines[6:10]] == top


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_the_columns_of_a_matrix_have_the_words_as_heads(words):
    tokens = tuple(Token(word, word) for word in words)
    matrices = {name: np.eye(4) for name in "QKV"}
    worked = work_out(ExampleInputs(title="", matrices=matrices, tokens=tokens))
    lines = printed_by(lambda console: show_matrices(worked, console)).splitlines()
    heads = [line.split() for line in lines if line.split() == [f"\u2068{word}\u2069" for word in words] * 2]
    assert len(heads) == 1  # of the products and the scores, side by side


def test_only_right_to_left_words_are_isolated_and_cut_words_too():
    assert printable("snake") == "snake"
    assert printable("הנחש") == "\u2068הנחש\u2069"
    assert shortened("הנחשמסוכן", 5) == "\u2068הנחש…\u2069"
    (label, *_) = printed_by(
        lambda console: console.print(Columns(["הנחש" * 20], ["a"], [[Text("1")]], gap=2))
    ).splitlines()[1:]
    assert label.startswith("\u2068" + ("הנחש" * 11)[:43] + "…\u2069")
