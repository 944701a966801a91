"""`regard explore`: open a page in the browser that shows a model's attention to the text that the user types."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.listening_socket import listen
from regard.cli.shared_options import Host, Model, Port
from regard.errors import InputError, require_packages


def explore(
    text: Annotated[str | None, typer.Argument(help="The text that the page shows first.", show_default=False)] = None,
    model: Model = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace", help="Show a saved trace. Without --model or --translator, the page reads no other text."
        ),
    ] = None,
    translator: Annotated[
        Path | None, typer.Option("--translator", help="The folder of a translator, which translates what is typed.")
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
) -> None:
    """Type a text and see a model's attention, in the browser, on this machine.

    The page is that of `regard look --html`, but live: a model on this machine reads what you type. Set an attention
    weight or a head to 0, and see how the model's output changes. Ctrl-C stops the server.

    [bold]Examples[/bold]

    \b
      regard explore
      regard explore "The snake is" --model openai-community/gpt2
      regard explore --translator en-de
      regard explore --trace snake.safetensors
    """
    if translator is not None and model is not None:
        raise InputError("--model and --translator cannot be given together; give one of them.")
    packages, extra = ["uvicorn", "starlette", "safetensors"], "explore,huggingface"
    if translator is not None:
        packages, extra = [*packages, "sentencepiece"], "explore,translation"
    elif model is not None or trace is None:
        packages += ["transformers"]
    require_packages(packages, extra)
    from regard.cli.progress import spinner
    from regard.explore.server import application
    from regard.explore.session import FIRST_TEXT, Session
    from regard.tracing.trace import Trace

    saved_trace = None if trace is None else Trace.load(trace)
    if translator is not None:
        from regard.translation.translator_folder import holds_translator

        if not holds_translator(translator):
            raise InputError(f"{translator} holds no translator; regard train makes one.")
    name = str(translator) if translator else model
    if name is None and saved_trace is None:
        name = "MiniLM"
    session = Session(name, saved_trace, FIRST_TEXT if text is None else text)
    listening = listen(host, port)
    with listening.socket:
        if name is not None:
            with spinner("loading the model"):  # a model that reads no text raises InputError before the page opens
                session.load(name, generates=False)  # loaded again if the page lets it generate text
        print(f"exploring at {listening.address} (Ctrl-C ends it)", flush=True)
        if browser and sys.stdout.isatty():
            import webbrowser

            webbrowser.open(listening.address)
        app = application(session, listening.hosts, listening.token)
        listening.run(app)
