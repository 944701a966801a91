"""`regard translate DIR`: texts in, their translations out, line for line."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from regard.cli.shared_options import Device, Truncate

if TYPE_CHECKING:
    from regard.translation.search.interface import Search
    from regard.translation.translation import Translation
    from regard.translation.translator import Translator

LINES = 512
"""Lines that are sorted by length and translated together; their translations come out together."""


def translate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that regard train wrote.")],
    file: Annotated[
        Path | None, typer.Option("--input", "-i", help="Read this file.", show_default="standard input")
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Take the likeliest piece each time: the fastest.")] = False,
    beam: Annotated[
        int | None, typer.Option("--beam", "-b", help="Keep this many texts under way.", show_default="5")
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option("--length-penalty", help="More = longer texts; 0 = none.", show_default="1")
    ] = None,
    coverage_penalty: Annotated[
        float | None,
        typer.Option("--coverage-penalty", help="More = less of the source left out; 0 = none.", show_default="0"),
    ] = None,
    n_best: Annotated[
        int | None, typer.Option("--n-best", "-n", help="Write this many translations of each line, with scores.")
    ] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw each piece from what the model expects.")] = False,
    temperature: Annotated[
        float | None,
        typer.Option(
            "--temperature", help="Below 1 the likely become likelier; above 1 all become alike.", show_default="1"
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Draw from this many pieces.", show_default="all")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option("--top-p", help="Draw from this much of the probability.", show_default="all")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Another seed, other samples.", show_default="0")] = None,
    prefix: Annotated[str | None, typer.Option("--prefix", help="What every translation must begin with.")] = None,
    prefix_file: Annotated[
        Path | None, typer.Option("--prefix-file", help="A beginning for each line, a line each; empty = none.")
    ] = None,
    alignments: Annotated[
        bool, typer.Option("--alignments", "-a", help="After each translation its word pairs: ||| 0-0 1-2.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, with all weights.")] = False,
    copy_unknown: Annotated[
        bool, typer.Option("--copy-unknown", help="Copy from the source what the translator cannot write.")
    ] = False,
    truncate: Truncate = False,
    batch_tokens: Annotated[
        int | None, typer.Option("--batch-tokens", help="Source pieces translated at a time.", show_default="2048")
    ] = None,
    device: Device = None,
) -> None:
    """Translate lines: one in, one out, in the same order; an empty line stays one.

    What is worth knowing about a line goes to the error stream with its number: characters that the translator does not
    know, a text that was not read or written to its end.

    --alignments writes "translation ||| pairs": for each word of the translation a pair source-target with the word of
    the line that it looked at most. Words are what white space divides, counted from 0. --n-best writes
    "line ||| translation ||| score", lines counted from 0 as Moses does; with --alignments, "||| pairs" follows.

    [bold]Examples[/bold]

    \b
      echo "I am a student." | regard translate en-fr
      regard translate en-fr --alignments < book.en > book.fr
      regard translate en-fr --n-best 3 --beam 8 < book.en
      regard translate en-fr --sample --temperature 0.7 --top-p 0.9
      regard translate en-fr --json < book.en | jq .alignment
    """
    from regard.cli.progress import spinner
    from regard.cli.text_lines import line_progress, read_lines

    beams = {"size": beam, "length_penalty": length_penalty, "coverage_penalty": coverage_penalty, "n_best": n_best}
    drawing = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    check_search_options(greedy, sample, beams, drawing)
    check_exclusive({"--prefix": prefix, "--prefix-file": prefix_file})
    check_positive("--batch-tokens", batch_tokens)
    with ExitStack() as stack:
        stream = open_input(stack, file)
        beginnings = Prefixes(prefix, prefix_file)
        with spinner("loading the translator"):
            from regard.translation.length_batches import BATCH_TOKENS
            from regard.translation.translator import Translator

            search = search_from_options(greedy, sample, beams, drawing)
            translator = Translator.load(folder, device)
        form = OutputFormat(alignments=alignments, json=as_json, n_best=n_best is not None)
        tell, count = stack.enter_context(line_progress(stream, "translating"))
        first = 1
        for lines in read_lines(stream, file):
            for start in range(0, len(lines), LINES):
                texts = lines[start : start + LINES]
                found = translator.translate(
                    texts,
                    search=search,
                    prefix=beginnings.of(first, len(texts)),
                    truncate=truncate,
                    batch_tokens=batch_tokens or BATCH_TOKENS,
                    first=first,
                )
                found = translator.copy_unknown(found) if copy_unknown else found
                form.write(translator, found, first)
                for number, one in enumerate(found, first):
                    for remark in remarks(one):
                        tell(f"line {number}: {remark}")
                first += len(texts)
                count(len(texts))
        beginnings.refuse_more(first - 1)


def open_input(stack: ExitStack, file: Path | None) -> BufferedIOBase:
    """What to read.

    Raises:
        InputError: the file cannot be read.
    """
    from regard.errors import InputError, reason

    if file is None:
        return cast("BufferedIOBase", sys.stdin.buffer)
    try:
        return stack.enter_context(file.open("rb"))
    except OSError as error:
        raise InputError(f"cannot read {file}: {reason(error)}; give a text file with a sentence a line.") from error


# Options


def check_search_options(
    greedy: bool, sample: bool, beams: dict[str, float | int | None], drawing: dict[str, float | int | None]
) -> None:
    """There is one way to search, and options that belong to another have no meaning.

    Raises:
        InputError: two ways, or an option without its own.
    """
    from regard.errors import InputError

    ways = {"greedy": greedy, "sample": sample} | {name: value is not None for name, value in beams.items()}
    chosen = [option_name(name) for name, there in ways.items() if there]
    if len(chosen) > 1 and (greedy or sample):
        raise InputError(
            f"got {' and '.join(chosen)}; a search is --greedy, or --sample, or a beam with the options of one."
        )
    for name, value in drawing.items():
        if value is not None and not sample:
            raise InputError(f"{option_name(name)} {value} is about sampling; give --sample as well.")


def check_exclusive(options: dict[str, object]) -> None:
    """Two options that say the same thing.

    Raises:
        InputError: both are given.
    """
    from regard.errors import InputError

    if all(value is not None for value in options.values()):
        raise InputError(f"got {' and '.join(options)}; give one of them.")


def check_positive(option: str, value: int | None) -> None:
    """A count of at least 1.

    Raises:
        InputError: it is less.
    """
    from regard.errors import InputError

    if value is not None and value < 1:
        raise InputError(f"{option} {value} must be at least 1.")


def search_from_options(greedy: bool, sample: bool, beams: dict[str, Any], drawing: dict[str, Any]) -> "Search":
    """The search that the options describe.

    Raises:
        InputError: a number that cannot be.
    """
    from regard.errors import InputError
    from regard.translation.search.beam import Beam
    from regard.translation.search.greedy import Greedy
    from regard.translation.search.sampling import Sample

    kind, options = (Sample, drawing) if sample else (Beam, beams)
    given = {name: value for name, value in options.items() if value is not None}
    if "n_best" in given:
        given.setdefault("size", max(given["n_best"], Beam().size))
    try:
        return Greedy() if greedy else kind(**given)
    except ValueError as error:
        message = str(error).replace("Greedy()", "--greedy")
        for name in given:
            message = message.replace(f"{name}=", f"{option_name(name)} ")
        raise InputError(message) from error


def option_name(name: str) -> str:
    """The option for a number of a search.

    >>> option_name("size"), option_name("n_best")
    ('--beam', '--n-best')
    """
    return "--beam" if name == "size" else f"--{name.replace('_', '-')}"


class Prefixes:
    """What translations must begin with: one prefix for all, or a line of a file for each."""

    def __init__(self, prefix: str | None, file: Path | None) -> None:
        from regard.cli.text_lines import read_file_lines

        self.prefix, self.file = prefix, file
        self.lines = None if file is None else read_file_lines(file)

    def of(self, first: int, n: int) -> str | list[str] | None:
        """Those of n lines, the first of which has this number.

        Raises:
            InputError: the file has ended before.
        """
        from regard.errors import InputError

        if self.lines is None:
            return self.prefix
        if len(self.lines) < first - 1 + n:
            raise InputError(
                f"{self.file} has a prefix for {len(self.lines)} lines and there are more to translate; "
                "it needs a line for each, and may leave it empty."
            )
        return self.lines[first - 1 : first - 1 + n]

    def refuse_more(self, n_lines: int) -> None:
        """Refuse prefixes that no line was for.

        Raises:
            InputError: there are some.
        """
        from regard.errors import InputError

        if self.lines is not None and len(self.lines) > n_lines:
            raise InputError(
                f"{self.file} has a prefix for {len(self.lines)} lines and {n_lines} were translated; "
                "do the two belong together?"
            )


# Output


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputFormat:
    """How translations are written."""

    alignments: bool
    json: bool
    n_best: bool

    def write(self, translator: "Translator", translations: "Sequence[Translation]", first: int) -> None:
        """Write translations to standard output, a line each or as many as there are candidates."""
        lines = (
            list(self.as_json(translator, translations))
            if self.json
            else list(self.as_text(translator, translations, first))
        )
        sys.stdout.buffer.write("".join(f"{line}\n" for line in lines).encode())
        sys.stdout.buffer.flush()

    def as_json(self, translator: "Translator", translations: "Sequence[Translation]") -> Iterator[str]:
        """An object for each translation."""
        for one, alignment in zip(translations, translator.align(translations), strict=True):
            yield json.dumps(one.record(alignment), ensure_ascii=False)

    def as_text(self, translator: "Translator", translations: "Sequence[Translation]", first: int) -> Iterator[str]:
        """A line for each translation, or for each of its candidates."""
        numbered = [
            (number, one)
            for number, each in enumerate(translations, first - 1)
            for one in (each.candidates if self.n_best else [each])
        ]
        pairs = translator.align([one for _, one in numbered]) if self.alignments else [None] * len(numbered)
        for (number, one), alignment in zip(numbered, pairs, strict=True):
            text = " ".join(one.text.splitlines())  # a vocabulary of bytes can write any character
            fields = [str(number), text, f"{one.score:.6f}"] if self.n_best else [text]
            yield " ||| ".join(fields if alignment is None else [*fields, alignment.pharaoh])


def remarks(translation: "Translation") -> Iterator[str]:
    """What is worth knowing about how a line was translated."""
    from regard.translation.pieces import UNKNOWN

    if translation.unknown:
        yield f"the translator does not know {', '.join(map(repr, dict.fromkeys(translation.unknown)))}"
    if translation.left_out:
        n = len(translation.source_ids) - 1
        yield f"too long: the first {n:,} pieces were read and the last {translation.left_out:,} were not"
    if translation.cut:
        yield f"the translation was ended at {len(translation.target_ids):,} pieces, the longest that is looked for"
    if UNKNOWN in translation.target_pieces:
        yield f"{UNKNOWN} stands where the translator knows no piece; --copy-unknown copies from the source"
