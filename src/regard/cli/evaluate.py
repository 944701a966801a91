"""`regard evaluate REFERENCE HYPOTHESIS`: score translations against reference translations."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.remarks import NOT_TRANSLATED, print_remark
from regard.cli.shared_options import Device, Int8, Truncate
from regard.cli.written_files import STDOUT, checked_outputs, print_written, write_json
from regard.errors import InputError


def evaluate(
    reference: Annotated[Path, typer.Argument(help="The reference translations, one a line.")],
    hypothesis: Annotated[
        Path | None, typer.Argument(help="The translations, line by line; - reads them from standard input.")
    ] = None,
    translator: Annotated[
        Path | None, typer.Option("--translator", "-t", help="A translator's folder, to get HYPOTHESIS from --source.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--source", "-s", help="The source sentences: shown beside the worst lines, and translated by --translator."
        ),
    ] = None,
    truncate: Truncate = False,
    int8: Int8 = False,
    device: Device = None,
    against: Annotated[
        Path | None, typer.Option("--against", "-a", help="The translations of another system, for comparison.")
    ] = None,
    more: Annotated[
        list[Path] | None, typer.Option("--reference", "-r", help="One more reference; may be repeated.")
    ] = None,
    tokenize: Annotated[
        str | None,
        typer.Option(
            "--tokenize",
            help="The tokenizer of BLEU: 13a, intl, char, zh, ja-mecab, ko-mecab …",
            show_default="13a; char if the reference lines have fewer than 5 words on average",
        ),
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore upper and lower case.")] = False,
    comet: Annotated[
        str | None,
        typer.Option("--comet", help="Add COMET: a model's file or name; needs unbabel-comet.", metavar="MODEL"),
    ] = None,
    worst: Annotated[int, typer.Option("--worst", "-n", min=0, help="How many of the worst lines to print.")] = 5,
    html: Annotated[Path | None, typer.Option("--html", help="Write the results as a page for any browser.")] = None,
    json: Annotated[
        Path | None,
        typer.Option("--json", help="Write every number and every line as JSON; - writes only them, to stdout."),
    ] = None,
) -> None:
    """Score translations against references: BLEU, chrF and TER, also by length, and the worst lines.

    --comet MODEL adds COMET, computed by the package unbabel-comet with the first reference.
    --against adds the scores of another system, and p-values of the differences (paired bootstrap).

    [bold]Examples[/bold]

    \b
      regard evaluate test.de system.de
      regard evaluate test.de system.de --source test.en \\
          --against other.de --html evaluation.html
      regard evaluate test.ko --translator en-ko --source test.en
      regard translate en-ko < test.en | regard evaluate test.ko -
    """
    from dataclasses import asdict
    from json import dumps

    from regard.cli.progress import spinner
    from regard.cli.text_lines import read_file_lines
    from regard.evaluation.evaluate import bleu_tokenizer, check_lines, is_tokenized
    from regard.evaluation.evaluate import evaluate as measure

    check_inputs(
        hypothesis, translator, source, {"--truncate": truncate, "--int8": int8, "--device": device is not None}
    )
    references = [reference, *(more or [])]
    text_files = [path for path in (*references, source, hypothesis, against) if path is not None]
    outputs = checked_outputs(inputs=[*text_files, translator, comet], html=html, json=json)
    if text_files.count(Path("-")) > 1:
        raise InputError("- is standard input, which can be read only once, and it is given twice; name a file.")
    lines = {path: read_file_lines(path) for path in text_files}
    check_lines({"standard input" if path == Path("-") else str(path): text for path, text in lines.items()})
    if hypothesis is not None:
        hypotheses = lines[hypothesis]
    else:
        assert translator is not None  # `check_inputs` requires it if there is no hypothesis
        assert source is not None
        hypotheses = translate_lines(translator, lines[source], truncate, int8, device)
    tokenizer = tokenize or bleu_tokenizer(lines[reference])
    with spinner("measuring"):
        evaluation = measure(
            hypotheses,
            *(lines[path] for path in references),
            source=lines[source] if source else None,
            against=lines[against] if against else None,
            tokenize=tokenizer,
            lowercase=lowercase,
            comet=comet,
        )
    if tokenize is None and tokenizer == "char":
        print_remark(
            "BLEU counts characters, as in training, because the reference lines have few words; --tokenize 13a counts "
            "words."
        )
    if tokenize != "none" and is_tokenized(hypotheses):
        print_remark(
            "most lines end with a space and a full stop, as tokenized text does. Detokenize the text to compare its "
            "BLEU with others, or give --tokenize none if the others are computed from tokenized text too."
        )
    if html:
        from regard.views.evaluation.page import write_page

        write_page(evaluation, html, page_title(hypothesis, translator), str(against) if against else None)
    if json:
        write_json(json, dumps(asdict(evaluation), ensure_ascii=False, indent=1) + "\n")
    if json != STDOUT:
        from regard.views.evaluation.text import show

        show(evaluation, worst)
        print_written(outputs)


def check_inputs(
    hypothesis: Path | None, translator: Path | None, source: Path | None, translator_options: dict[str, bool]
) -> None:
    """Raise InputError if both or none of `hypothesis` and `translator` are given, or `translator` without `source`.

    `translator_options` has, for each option that needs --translator, whether it is given; such an option alone is an
    error too.
    """
    if (hypothesis is None) == (translator is None):
        got = "both HYPOTHESIS and --translator" if translator else "neither HYPOTHESIS nor --translator"
        raise InputError(f"got {got}; give the file of translations, or a translator that makes them.")
    if translator is not None and source is None:
        raise InputError("--translator translates the file --source, which is missing; name the file to translate.")
    for option, is_given in translator_options.items():
        if is_given and translator is None:
            raise InputError(f"{option} is an option of --translator; give that as well.")


def translate_lines(folder: Path, lines: list[str], truncate: bool, int8: bool, device: str | None) -> list[str]:
    from regard.cli.progress import spinner

    with spinner(f"translating {len(lines):,} lines"):
        from regard.translation.translator import Translator

        translator = Translator.load(folder, device, int8=int8)
        # a line that is too long is cut, or else split into sentences
        translations = translator.translate(lines, truncate=truncate, split=not truncate)
    for number, translation in enumerate(translations, 1):
        if translation.untranslated:
            print_remark(f"line {number}: {NOT_TRANSLATED}")
    return [translation.text for translation in translations]


def page_title(hypothesis: Path | None, translator: Path | None) -> str:
    if translator is not None:
        return translator.resolve().name
    return "translations" if hypothesis is None or str(hypothesis) == "-" else hypothesis.name
