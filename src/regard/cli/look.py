"""`regard look TEXT`: run a model on a text and show its attention."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.remarks import (
    letters_of,
    print_remark,
    remark_on_file_name,
    remark_on_fonts,
    remark_on_layers_not_shown,
    remark_on_silence,
    remark_on_texts,
    remarks_on_translation,
)
from regard.cli.shared_options import HeadName, Model, Span, Target, Token, Truncate, Words
from regard.cli.written_files import STDOUT, checked_outputs, print_written, write_json
from regard.errors import InputError
from regard.visible_text import visible_name

if TYPE_CHECKING:
    from regard.translation.translation import Translation


def look(
    text: Annotated[
        str | None, typer.Argument(help="The text for the model; - reads it from standard input.", show_default=False)
    ] = None,
    token: Token = None,
    head: HeadName = None,
    layer: Annotated[
        int | None, typer.Option("--layer", help="Use only the heads of this layer, counted from 0.")
    ] = None,
    model: Model = None,
    target: Target = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page for any browser, with every head.")] = None,
    png: Annotated[Path | None, typer.Option("--png", help="Write a PNG picture.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write an SVG picture.")] = None,
    pdf: Annotated[Path | None, typer.Option("--pdf", help="Write a PDF picture.")] = None,
    heads: Annotated[
        Path | None,
        typer.Option(
            "--heads", help="Write a picture of all heads, or of the heads of --layer: a .png, .svg or .pdf file."
        ),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(
            "--json",
            help="Write the weights of all heads, or of --head or --layer, as JSON; - writes only them, to stdout.",
        ),
    ] = None,
    words: Words = False,
    span: Span = None,
    truncate: Truncate = False,
    image: Annotated[
        list[Path] | None,
        typer.Option("--image", help="A picture that the model reads, with or without a text; may be repeated."),
    ] = None,
    video: Annotated[
        Path | None, typer.Option("--video", help="A moving picture that the model reads: a GIF, WebP or APNG file.")
    ] = None,
    audio: Annotated[Path | None, typer.Option("--audio", help="A recording that the model reads: a WAV file.")] = None,
    new_tokens: Annotated[
        int | None, typer.Option("--new-tokens", help="Let the model generate up to this many tokens after the text.")
    ] = None,
    padding: Annotated[
        bool,
        typer.Option(
            "--padding", help="Show every frame of the silence after a recording, not one token for all of it."
        ),
    ] = False,
) -> None:
    """Run a model on a text and show which tokens attend to which.

    Without --token and --head, regard chooses a query token and a head that give a large weight to a distant word,
    preferably a word at which few other tokens look. L3H1 is head 1 of layer 3, counted from 0; L3average is the mean
    of the heads of layer 3. A translator translates the text, or reads --target as the
    translation. The picture of a translation is its word alignment; with --token, --head or --layer, it is a picture of
    one head.

    [bold]Examples[/bold]

    \b
      regard look "The snake is very dangerous because it has a venom."
      regard look "The snake is very dangerous because it has a venom." \\
          --token it --head L3H1 --html snake.html --png snake.png
      regard look "the Eiffel Tower in Montmartre" --span "Eiffel Tower" \\
          --words --head L3average
      regard look - --model openai-community/gpt2 --layer 5 < letter.txt
      regard look "The snake is" --model openai-community/gpt2 --new-tokens 20
      regard look --image cat.png --model google/vit-base-patch16-224 \\
          --png seen.png
      regard look "What differs?" --image a.png --image b.png \\
          --model Qwen/Qwen2-VL-2B-Instruct
      regard look "What happens?" --video clip.gif \\
          --model Qwen/Qwen2-VL-2B-Instruct
      regard look --audio speech.wav --model openai/whisper-tiny --new-tokens 40
      regard look "A dog runs." --model en-de --html dog.html
    """
    from regard.cli.media_files import media_arguments
    from regard.cli.progress import spinner
    from regard.cli.text_lines import read_stdin

    pictures = [path for path in (png, svg, pdf) if path is not None]
    inputs = [model, *(image or []), video, audio]
    outputs = checked_outputs(inputs, html=html, png=png, svg=svg, pdf=pdf, heads=heads, json=json)
    if heads:
        from regard.views.picture.canvas import check_picture_path

        check_picture_path(heads)
    has_medium = bool(image or video or audio)
    if text is None and not has_medium:
        raise InputError("there is nothing to look at; give a text, --image, --video or --audio.")
    if has_medium and model is None:
        raise InputError("MiniLM reads text alone; name a model of pictures or recordings with --model.")
    remark_on_file_name(text or "")
    text = read_stdin() if text == "-" else text
    with spinner("reading"):
        from regard.tracing.focus import focus_on
        from regard.tracing.for_page import trace_for_page
        from regard.tracing.run import trace

        translation = None if has_medium else translate_text(model, text or "", target, truncate, new_tokens)
        if translation is not None:
            traced = translation.trace
        else:
            run = trace_for_page if html else trace  # a page also shows the vectors of the tokens
            traced = run(
                "MiniLM" if model is None else model,
                text,
                target=target,
                truncate=truncate,
                new_tokens=new_tokens,
                layers=[layer] if has_medium and layer is not None else None,
                **media_arguments(image or [], video, audio),
            )
        if words or span:
            traced = traced.words(*(span or ()))
        # Vision models such as Swin have stages: layers that divide the picture into the same patches. The stage of the
        # head is shown, or the last one.
        full_trace, traced = traced, traced.stage(head)
        if not padding:
            traced = traced.without_padding()
        focus = focus_on(traced, token, head, layer)

    from regard.views.terminal.trace import show

    remark_on_texts(traced)
    remark_on_layers_not_shown(full_trace, traced)
    remark_on_silence(full_trace, traced)
    query = focus.query
    head_name = f"{focus.head.kind} {focus.head.name}"  # such as "cross L3H1"
    if translation is not None:
        for remark in (*remarks_on_translation(translation), *translation.unlike):
            print_remark(remark)
    with spinner("drawing"):
        if html:
            if translation is None:
                traced.html(html, token=query, head=head_name, padding=padding)
            else:
                translation.html(html, token=query, head=head_name)
        is_of_one_head = bool(token or head or layer is not None)
        for picture in pictures:
            # an empty translation has no aligned words
            if translation is not None and translation.alignment.pairs and not is_of_one_head:
                translation.figure(picture)
            else:
                traced.figure(picture, token=query, head=head_name, padding=padding)
        if heads:
            traced.heads_figure(heads, layer, focus.head.kind, padding=padding)
    if pictures or heads:
        remark_on_fonts(letters_of(traced))
    if json:
        from regard.views.json_text import trace_json

        all_heads = traced.heads(focus.head.kind)
        json_heads = [focus.head] if head else [h for h in all_heads if layer is None or h.layer == layer]
        write_json(json, trace_json(traced, focus, json_heads))
    if json != STDOUT:  # printed last: a reader of the output, such as head, may end this command
        if translation is not None:
            show_alignment(translation)
        show(traced, token=query, head=head_name)
        print_written(outputs)


def translate_text(
    model: str | None, text: str, target: str | None, truncate: bool, new_tokens: int | None
) -> "Translation | None":
    """Translate a text, or score its translation `target`, with the translator in the folder `model`.

    Return None if `model` is a Hugging Face model or None.
    """
    from regard.translation.translator_folder import holds_translator

    if model is None or not holds_translator(Path(model)):
        return None
    from regard.by_hand.translator_head import translate_or_score
    from regard.translation.search.beam import Beam
    from regard.translation.translator import Translator

    if new_tokens is not None:
        raise InputError(f"{model} is a translator, which always writes its whole translation; leave --new-tokens out.")
    return translate_or_score(Translator.load(model), text, target, truncate, n_best=Beam().size)


def show_alignment(translation: "Translation") -> None:
    from rich.console import Console

    from regard.views.alignment import alignment_table

    alignment = translation.alignment
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"{visible_name(translation.source)} → {visible_name(translation.text)}\n")
    if not alignment.pairs:
        return
    console.print(alignment_table(alignment.source_words, alignment.target_words, alignment.weights))
    console.print(f"\naligned by {translation.translator.alignment_rule}\n", soft_wrap=False)
