"""`regard score DIR SOURCE TARGET`: the log-probability that a translator gives to given translations."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.shared_options import Device, TranslatorFolder, Truncate
from regard.errors import InputError, counted

if TYPE_CHECKING:
    from regard.translation.translation import Translation
    from regard.translation.translator import Translator

PAIRS_PER_CALL = 512

SPACES = str.maketrans("\t\n", "  ")
"""For str.translate: spaces in place of tabs and line ends, which separate the texts and the lines of the output."""

DIGITS = 6
"""The decimals of a score; a float32 is accurate to about as many."""


def score(
    folder: TranslatorFolder,
    source: Annotated[Path, typer.Argument(help="The sentences, one a line.")],
    target: Annotated[Path, typer.Argument(help="Their translations, line by line.")],
    pairs: Annotated[
        bool,
        typer.Option(
            "--pairs", "-p", help="After each score, write both texts, with tabs between; tabs in texts become spaces."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object a line, with the score of each piece.")
    ] = False,
    truncate: Truncate = False,
    device: Device = None,
) -> None:
    """Score given translations: print how probable the translator finds each, one score a line.

    A score is a mean log-probability, in nats: the mean of log P(piece | source, earlier pieces) over all pieces of a
    translation and its end. 0 means certain; -1 means a probability of 1/e per piece (geometric mean). Wrong
    translations tend to have low scores, so sorting a corpus by score brings errors to the top. A weak translator also
    gives low scores to right translations of rare words: read the lines before you delete them.

    [bold]Examples[/bold]

    \b
      regard score en-ko test.en test.ko
      regard score en-ko train.en train.ko --pairs | sort -n | head -100
      regard score en-ko train.en train.ko --pairs |
          awk -F'\\t' '$1 > -4' > clean.tsv
      regard score en-ko test.en test.ko --json | jq .pieces
    """
    from regard.cli.progress import line_progress, spinner
    from regard.cli.text_lines import open_text, read_lines

    with ExitStack() as stack:
        streams = [open_text(stack, path) for path in (source, target)]
        with spinner("loading the translator"):
            from regard.translation.translator import Translator

            translator = Translator.load(folder, device)
        count = stack.enter_context(line_progress(streams[0], "scoring", sys.stdout))
        source_lines = chain.from_iterable(read_lines(streams[0], source))
        target_lines = chain.from_iterable(read_lines(streams[1], target))
        pairs_of_lines = checked_pairs(source_lines, target_lines, source, target)
        first = 1  # the number of the batch's first line
        while batch := list(islice(pairs_of_lines, PAIRS_PER_CALL)):
            sources, targets = zip(*batch, strict=True)
            scored = translator.score(sources, targets, truncate=truncate, first=first)
            lines = json_lines(translator, scored) if as_json else text_lines(scored, pairs)
            sys.stdout.writelines(f"{line}\n" for line in lines)
            first += len(batch)
            count(len(batch))


def checked_pairs(
    source_lines: Iterator[str], target_lines: Iterator[str], source: Path, target: Path
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of lines of two texts; then raise InputError if one has more lines than the other."""
    for number, (source_line, target_line) in enumerate(zip_longest(source_lines, target_lines)):
        if source_line is None or target_line is None:
            short, long = (target, source) if target_line is None else (source, target)
            raise InputError(
                f"{short} has {counted(number, 'line')} and {long} has more; line n of {target} must be the "
                f"translation of line n of {source}."
            )
        yield source_line, target_line


def text_lines(scored: "list[Translation]", pairs: bool) -> Iterator[str]:
    """Yield a line with the score of each translation, and with `pairs` also source and translation, after tabs."""
    for translation in scored:
        fields = [f"{translation.mean_log_probability:.{DIGITS}f}"]
        if pairs:
            fields += [translation.source.translate(SPACES), translation.text.translate(SPACES)]
        yield "\t".join(fields)


def json_lines(translator: "Translator", scored: "list[Translation]") -> Iterator[str]:
    from regard.text.vocabulary import EOS

    end = translator.target_vocabulary.pieces([EOS])  # it has a score, but is not among `target_pieces`
    for translation, piece_scores in zip(scored, translator.piece_log_probabilities(scored), strict=True):
        record: dict[str, Any] = {
            "source": translation.source,
            "target": translation.text,
            "score": round(translation.mean_log_probability, DIGITS),
            "log_probability": round(translation.log_probability, DIGITS),
            "pieces": [
                [piece, round(log_probability, DIGITS)]
                for piece, log_probability in zip([*translation.target_pieces, *end], piece_scores, strict=True)
            ],
        }
        yield json.dumps(record, ensure_ascii=False)
