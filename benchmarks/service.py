"""Requests that a translation service answers in a second: `regard serve`, and CTranslate2 behind the same server."""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from by_ctranslate2 import load_ctranslate2, translate_by_ctranslate2
from machine import machine
from measure import Spread, ratio, take_turns
from options import Out, Quick, Seconds
from picture import Picture
from table import Row, Table, command_of, publish, with_progress
from translation import LINES, PAIRS, STEPS, LinesFile, TranslatorFolder, lines_of, trained

from regard.cli.listening_socket import listen
from regard.export import export
from regard.serve.batching import Batching
from regard.serve.server import application
from regard.translation.search.beam import Beam
from regard.translation.translator import Translator

CLIENTS = 1, 16, 64, 200
BEAM = 5


def main(
    model: TranslatorFolder = None,
    lines: LinesFile = None,
    clients: Annotated[list[int] | None, typer.Option(help="Clients; may be given several times.")] = None,
    seconds: Seconds = 60,
    quick: Quick = False,
    out: Out = None,
) -> None:
    """Compare the requests per second of regard's service with those of CTranslate2 behind the same server.

    \b
    Example
      python benchmarks/service.py --model ko-en --lines test.ko
    """
    torch.set_num_threads(1)
    n_lines, pairs, steps = LINES, PAIRS, STEPS
    if quick:
        clients, seconds, n_lines, pairs, steps = clients or [2], min(seconds, 0.2), 4, 300, 5
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        translator = Translator.load(model or trained(Path(folder), pairs, steps), "cpu")
        texts = lines_of(lines, n_lines)[:n_lines]
        saved = translator.save(Path(folder) / "saved")
        export(saved, "ctranslate2", Path(folder) / "ctranslate2")
        ports = {
            "regard serve": stack.enter_context(server(saved, None)),
            "CTranslate2": stack.enter_context(server(saved, Path(folder) / "ctranslate2")),
        }
        one_by_one = Batching(translator, Beam(BEAM))
        rows = [
            measured(one_by_one, ports, texts, n_clients, seconds)
            for n_clients in with_progress(clients or CLIENTS, "service")
        ]
    suffix = f", {model.name}" if model else ""
    table = Table(
        name=f"service-{model.name}" if model else "service",
        title=f"A translation service, in requests a second{suffix}",
        about=(
            f"{len(texts)} requests of one line each, sent by as many clients at once as the row says; beam of {BEAM}, "
            "one thread for each server. loop: `translate` and `align` for one line after the other, without a server. "
            "CTranslate2: the same server, in which CTranslate2 translates with the same parameters in float32. It "
            "returns neither alignments nor scores; regard returns both."
        ),
        command=command_of(__file__),
        machine=machine("ctranslate2", "starlette", "uvicorn"),
        rows=rows,
        picture=Picture(x="clients", y=["loop", *ports], label="requests a second"),
    )
    publish(table, out, quick)


def measured(one_by_one: Batching, ports: dict[str, int], texts: Sequence[str], n_clients: int, seconds: float) -> Row:
    runs: dict[str, Callable[[], object]] = {"loop": lambda: [one_by_one.batch_answers([[text]]) for text in texts]}
    with ThreadPoolExecutor(n_clients) as pool:
        for name, port in ports.items():
            runs[name] = lambda port=port: list(pool.map(lambda text: ask(port, text), texts))  # type: ignore[misc]
        elapsed = take_turns(runs, seconds)
    return {
        "clients": n_clients,
        **{name: Spread.of([len(texts) / run for run in run_seconds]).median for name, run_seconds in elapsed.items()},
        "regard serve / loop": ratio(elapsed["loop"], elapsed["regard serve"]),
        "regard serve / CTranslate2": ratio(elapsed["CTranslate2"], elapsed["regard serve"]),
    }


def ask(port: int, text: str) -> str:
    """Send a line to the server on a port, over a connection of its own, and return its translation."""
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/translate", json.dumps({"texts": [text]}), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = json.loads(answer.read())
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"the server answered {answer.status}: {content}")
    return str(content["translations"][0]["text"])


@contextmanager
def server(translator: Path, ctranslate2: Path | None) -> Iterator[int]:
    """Run a translation service in another process during the with-block; yield its port.

    Args:
        ctranslate2: the folder of the translator as CTranslate2 reads it; None = regard translates.
    """
    receiver, sender = get_context("spawn").Pipe(duplex=False)
    process = get_context("spawn").Process(target=serve, args=(translator, ctranslate2, sender), daemon=True)
    process.start()
    sender.close()
    try:
        yield receiver.recv()
    finally:
        process.terminate()
        process.join()


def serve(folder: Path, ctranslate2: Path | None, pipe: Connection) -> None:
    """Run a translation service, and send its port through a pipe."""
    torch.set_num_threads(1)
    translator = Translator.load(folder, "cpu")
    batching = Batching(translator, Beam(BEAM))
    if ctranslate2 is not None:
        load_ctranslate2(str(ctranslate2), "float32", 1)
        batching = CTranslate2Batching(translator, Beam(BEAM))
    listener = listen("127.0.0.1", 0)
    pipe.send(listener.socket.getsockname()[1])
    listener.run(application(batching, listener.hosts))


class CTranslate2Batching(Batching):
    """Requests that arrive together, translated by CTranslate2."""

    def batch_answers(self, requests: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        texts = [text for request in requests for text in request]
        translations = iter(translate_by_ctranslate2(texts, BEAM))
        return [{"translations": [{"text": next(translations)} for _ in request]} for request in requests]


if __name__ == "__main__":
    typer.run(main)
