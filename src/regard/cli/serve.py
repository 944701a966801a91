"""`regard serve DIR`: run an HTTP server that translates texts for other programs."""

from regard.cli.listening_socket import listen
from regard.cli.search_options import BeamSize, GreedySearch, search_from_options
from regard.cli.shared_options import Device, Host, Int8, Port, TranslatorFolder
from regard.errors import InputError, require_packages


def serve(
    folder: TranslatorFolder,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    greedy: GreedySearch = False,
    beam: BeamSize = None,
    int8: Int8 = False,
    device: Device = None,
) -> None:
    """Serve a translator: programs send texts by HTTP and get translations, scores and word alignments.

    Requests that arrive while the model is busy are translated together as the next batch. GET /health says whether
    the service runs, GET /openapi.json describes the service. Ctrl-C answers the requests that have arrived, then stops
    the server.

    [bold]Examples[/bold]

    \b
      regard serve en-ko
      curl http://127.0.0.1:8000/translate \\
          -H 'Content-Type: application/json' -d '{"texts": ["forty-two"]}'
      regard serve en-ko --host 0.0.0.0 --greedy     (prints a TOKEN for others)
      curl http://server:8000/translate -H 'Authorization: Bearer TOKEN' …
    """
    if greedy and beam is not None:
        raise InputError("got --greedy and --beam; give one of them.")
    require_packages(("uvicorn", "starlette", "safetensors", "sentencepiece"), "explore,translation")
    from regard.cli.progress import spinner

    with spinner("loading the translator"):
        from regard.serve.batching import Batching
        from regard.serve.server import application
        from regard.translation.translator import Translator

        search = search_from_options(greedy, sample=False, beam_options={"size": beam}, sampling_options={})
        translator = Translator.load(folder, device, int8=int8)
    listening = listen(host, port)
    print(f"serving {translator.name} at {listening.address} (Ctrl-C ends it)", flush=True)
    app = application(Batching(translator, search), listening.hosts, listening.token)
    listening.run(app)
