"""Words of unknown letters, addresses and numbers are copied from the source; cases by hand."""

from dataclasses import replace

import pytest
import torch

from regard.text.vocabulary import EOS, UNK
from regard.translation.alignment import Alignment
from regard.translation.copy_unknown import with_copied_text


@pytest.fixture
def copied(translator):
    """copied(source, target, looks_at, unknown) returns the text after copying.

    looks_at[i] is the source word to which target word i attends most; `unknown` are source words without pieces.
    """

    def run(source, target, looks_at, unknown=()):
        sources, targets = source.split(), target.split()
        one = translator.translate(["the cat"])[0]
        one = replace(
            one,
            source=source,
            text=target,
            source_ids=(*(UNK if word in unknown else 7 for word in sources), EOS),
            source_pieces=(*(f"▁{word}" for word in sources), "</s>"),
            target_ids=(7,) * len(targets),
            target_pieces=tuple(f"▁{word}" for word in targets),
            candidates=(),
        )
        weights = torch.full((len(targets) + 1, len(sources) + 1), 0.01)
        for row, column in enumerate(looks_at):
            weights[row, column] = 0.9
        alignment = Alignment(
            source_words=tuple(sources),
            target_words=tuple(targets),
            source_pieces=one.source_pieces,
            target_pieces=(*one.target_pieces, "</s>"),
            piece_weights=weights,
            source_word_of=tuple(range(len(sources))),
            target_word_of=tuple(range(len(targets))),
        )
        return with_copied_text(one, alignment)

    return run


@pytest.mark.parametrize(
    ("source", "target", "looks_at", "unknown", "expected"),
    [
        ("the 뱀, sat", "die Katze, saß", [0, 1, 2], ["뱀,"], "die 뱀, saß"),
        ("the 뱀 sat", "die 뱀 saß", [0, 1, 2], ["뱀"], "die 뱀 saß"),
        ("Kubernetes는 어려워", "Tom is hard", [0, 0, 1], ["Kubernetes는"], "Kubernetes is hard"),
        ("ラーメンとSpätzle2を", "some noodles", [0, 0], ["ラーメンとSpätzle2を"], "ラーメン noodles"),
        ("a ½-inch pipe", "ein Rohr hier", [0, 2, 1], ["½-inch"], "ein Rohr ½-inch"),
        (
            "see https://a.example/b?c=1. now",
            "siehe hier. jetzt",
            [0, 1, 2],
            [],
            "siehe https://a.example/b?c=1. jetzt",
        ),
        ("www.kim.example은 개야", "it is a dog", [0, 1, 1, 1], [], "www.kim.example is a dog"),
        ("ask me@a-b.example", "frag mich", [0, 1], [], "frag me@a-b.example"),
        ("it costs 1,051 euros", "es kostet 1,050 Euro", [0, 1, 2, 3], [], "es kostet 1,051 Euro"),
        ("it costs 1,051 euros", "es kostet 1.051 Euro", [0, 1, 2, 3], [], "es kostet 1.051 Euro"),
        ("it costs 3,400 euros", "es kostet drei Euro.", [0, 1, 2, 3], [], "es kostet 3,400 Euro."),
        ("at 2:30 today", "um halb heute", [0, 1, 2], [], "um halb heute"),
        ("room 12 of 30", "Zimmer 30 von 12", [0, 1, 2, 3], [], "Zimmer 30 von 12"),
        ("at 7:45", "um 7 Uhr", [0, 1, 1], [], "um 7 Uhr"),
    ],
)
def test_what_is_copied(copied, source, target, looks_at, unknown, expected):
    found = copied(source, target, looks_at, unknown)
    assert found.text == expected
    assert len(found.target_pieces) == len(found.target_ids)


def test_a_long_text_is_copied_into_part_by_part(translator):
    long = "the cat sat on a mat, " * 4 + "see www.a.example now"
    (one,) = translator.copy_unknown(translator.translate([long], split=True))
    assert one.parts
    assert "www.a.example" in one.text
