"""`regard translate DIR`: translate lines of text."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.remarks import remarks_on_translation
from regard.cli.search_options import (
    BeamSize,
    GreedySearch,
    Seed,
    Temperature,
    TopK,
    TopP,
    check_search_options,
    search_from_options,
)
from regard.cli.shared_options import Device, Int8, TranslatorFolder, Truncate
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.translation.alignment import Alignment
    from regard.translation.translation import Translation
    from regard.translation.translator import Translator

NO_CALIBRATION = (
    "the expected chrF is written as -: the translator has no calibration; regard train stores one at its end if there "
    "are at least 20 dev pairs, and Translator.calibrated measures one"
)
"""The remark for --scores and a translator without a calibration."""


def translate(
    folder: TranslatorFolder,
    file: Annotated[
        Path | None, typer.Option("--input", "-i", help="The file to translate.", show_default="standard input")
    ] = None,
    greedy: GreedySearch = False,
    beam: BeamSize = None,
    length_penalty: Annotated[
        float | None, typer.Option("--length-penalty", help="Larger = longer translations; 0 = none.", show_default="1")
    ] = None,
    coverage_penalty: Annotated[
        float | None,
        typer.Option("--coverage-penalty", help="Larger = less of the source is left out; 0 = none.", show_default="0"),
    ] = None,
    n_best: Annotated[
        int | None, typer.Option("--n-best", "-n", help="Write this many translations of each line, with scores.")
    ] = None,
    mbr: Annotated[
        int | None,
        typer.Option(
            "--mbr",
            help="Draw this many samples, and choose the translation of the beam that is most like them (chrF).",
        ),
    ] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Sample each piece from the model's probabilities.")] = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    prefix: Annotated[str | None, typer.Option("--prefix", help="Begin every translation with this text.")] = None,
    prefix_file: Annotated[
        Path | None, typer.Option("--prefix-file", help="A file of prefixes, one for each line; empty = none.")
    ] = None,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores", help="After each translation, add its score and its expected chrF: ||| -0.12 ||| 84.2."
        ),
    ] = False,
    alignments: Annotated[
        bool, typer.Option("--alignments", "-a", help="After each translation, write its word alignment: ||| 0-0 1-2.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object for each line, with all attention weights.")
    ] = False,
    truncate: Truncate = False,
    batch_tokens: Annotated[
        int | None,
        typer.Option("--batch-tokens", help="The largest number of source pieces in a batch.", show_default="2048"),
    ] = None,
    int8: Int8 = False,
    device: Device = None,
) -> None:
    """Translate lines of text: one translation a line, in the order of the lines; an empty line stays empty.

    A line that is longer than the training texts, or too long for the model, is translated sentence by sentence. If
    even a clause is too long for the model, the line is written untranslated after the sign ⁇, and the exit status is
    1. Remarks with line numbers are printed on the error stream: about such lines, about characters that are not in the
    vocabulary, and about texts unlike the training texts.

    --alignments writes "translation ||| pairs". A pair 1-2 aligns source word 1 with target word 2: a piece of target
    word 2 has its largest weight on source word 1. Words are divided at white space and counted from 0.
    --n-best writes "line ||| translation ||| score", with lines counted from 0, as Moses does. With --sample, these are
    several samples, in the order drawn.

    --scores adds two numbers, "||| score ||| chrF"; then --alignments adds "||| pairs". This score is the mean
    log-probability of a piece, as regard score prints; that of --n-best is the one by which the search ranks, with its
    penalties. The chrF, a measure of quality from 0 to 100, is an expectation: when the training ended, translations of
    its evaluation texts with such a score had this chrF on average. "-" means that it is not known. It is measured with
    the default search: do not rely on it with --greedy, --sample or --mbr.

    [bold]Examples[/bold]

    \b
      echo "I am a student." | regard translate en-fr
      regard translate en-fr --alignments < book.en > book.fr
      regard translate en-fr --n-best 3 --beam 8 < book.en
      regard translate en-fr --sample --temperature 0.7 --top-p 0.9
      regard translate en-fr --mbr 32 --beam 8 < book.en > book.fr
      regard translate en-fr --json < book.en | jq .alignment
    """
    from regard.cli.progress import line_progress, spinner
    from regard.cli.text_lines import open_text, read_lines, standard_input

    penalties = {"length_penalty": length_penalty, "coverage_penalty": coverage_penalty}
    beam_options = {"size": beam, **penalties, "n_best": n_best, "mbr": mbr}
    sampling_options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    check_search_options(greedy, sample, beam_options, sampling_options)
    if prefix is not None and prefix_file is not None:
        raise InputError("got --prefix and --prefix-file; give one of them.")
    if batch_tokens is not None and batch_tokens < 1:
        raise InputError(f"--batch-tokens {batch_tokens} must be at least 1.")
    with ExitStack() as stack:
        stream = standard_input() if file is None else open_text(stack, file)
        prefixes = Prefixes(prefix, prefix_file)
        with spinner("loading the translator"):
            from regard.translation.length_batches import BATCH_TOKENS
            from regard.translation.translator import Translator

            search = search_from_options(greedy, sample, beam_options, sampling_options)
            translator = Translator.load(folder, device, int8=int8)
        count = stack.enter_context(line_progress(stream, "translating", sys.stdout))
        if scores and translator.calibration is None:
            print(NO_CALIBRATION, file=sys.stderr)
        first = 1  # the number of the first line of `texts`
        n_untranslated = 0
        for texts in read_lines(stream, file, prompt_for(stream, translator.name)):
            translations = translator.translate(
                texts,
                search=search,
                prefix=prefixes.for_lines(first, len(texts)),
                truncate=truncate,
                split=not truncate,
                batch_tokens=batch_tokens or BATCH_TOKENS,
                first=first,
            )
            if as_json:
                lines = json_lines(translator, translations)
            else:
                lines = text_lines(
                    translator, translations, first, n_best=n_best is not None, scores=scores, alignments=alignments
                )
            sys.stdout.buffer.write("".join(f"{line}\n" for line in lines).encode())
            sys.stdout.buffer.flush()
            for number, translation in enumerate(translations, first):
                # remarks on texts unlike the training texts; a drawn translation may be improbable, so it gets none
                unlike = translation.unlike_source if sample else translation.unlike
                if remarks := [*remarks_on_translation(translation), *unlike]:
                    print(f"line {number}: {'; '.join(remarks)}", file=sys.stderr)
                n_untranslated += translation.untranslated
            first += len(texts)
            count(len(texts))
        prefixes.check_number_of_lines(first - 1)
    if n_untranslated:
        raise typer.Exit(1)


def prompt_for(stream: BufferedIOBase, name: str) -> Callable[[], None]:
    """Return a function that prints the prompt "NAME> ", to be called before each line that the user types.

    The function prints nothing if `stream`, standard output or the error stream is not a terminal.
    """
    if not (stream.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        return lambda: None
    print("Type a text and press Enter; Ctrl-D ends.", file=sys.stderr)
    return lambda: print(f"{name}> ", end="", file=sys.stderr, flush=True)


class Prefixes:
    """The prefixes with which translations must begin: one prefix for all, or one for each line, read from a file."""

    def __init__(self, prefix: str | None, file: Path | None) -> None:
        from regard.cli.text_lines import read_file_lines

        self.prefix, self.file = prefix, file
        self.lines = None if file is None else read_file_lines(file)

    def for_lines(self, first: int, n: int) -> str | list[str] | None:
        """Return the prefixes of `n` lines from line `first`, counted from 1: a list, or one text for all lines.

        None = there is no prefix. Raises InputError if the file has too few prefixes.
        """
        if self.lines is None:
            return self.prefix
        if len(self.lines) < first - 1 + n:
            raise InputError(
                f"{self.file} has {len(self.lines)} prefixes, and there are more lines to translate; give a file with "
                "one prefix for each line, which may be empty."
            )
        return self.lines[first - 1 : first - 1 + n]

    def check_number_of_lines(self, n_lines: int) -> None:
        """Raise InputError if the file has more prefixes than there are lines to translate."""
        if self.lines is not None and len(self.lines) > n_lines:
            raise InputError(
                f"{self.file} has {len(self.lines)} prefixes, but the text has fewer lines ({n_lines}); give a "
                "file with one prefix for each line."
            )


def json_lines(translator: "Translator", translations: "Sequence[Translation]") -> Iterator[str]:
    for translation, alignment in zip(translations, translator.align(translations), strict=True):
        yield json.dumps(translation.record(alignment), ensure_ascii=False)


def text_lines(
    translator: "Translator",
    translations: "Sequence[Translation]",
    first: int,
    *,
    n_best: bool,
    scores: bool,
    alignments: bool,
) -> Iterator[str]:
    """Yield a line of text for each translation; with `n_best`, for each of its candidates, after the line's number.

    Args:
        first: the number, from 1, of the first translated line.
        scores, alignments: whether the line has the scores and the word alignment after the translation.
    """
    numbers, candidates = [], []
    for number, translation in enumerate(translations, first - 1):  # the numbers in the output begin at 0
        for candidate in translation.candidates if n_best else [translation]:
            numbers.append(number)
            candidates.append(candidate)
    aligned: Sequence[Alignment | None] = translator.align(candidates) if alignments else [None] * len(candidates)
    for number, candidate, alignment in zip(numbers, candidates, aligned, strict=True):
        text = " ".join(candidate.text.splitlines())  # a translation may have line ends if pieces are bytes
        fields = [str(number), text, f"{candidate.score:.6f}"] if n_best else [text]
        if scores:
            chrf = candidate.expected_chrf
            fields += [f"{candidate.mean_log_probability:.6f}", "-" if chrf is None else f"{chrf:.1f}"]
        if alignment is not None:
            fields.append(alignment.pharaoh)  # pairs such as "0-0 1-2", as the program Pharaoh writes them
        yield " ||| ".join(fields)
