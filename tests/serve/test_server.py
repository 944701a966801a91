"""The translation service: its answers are the translator's, none is lost, and bad requests are refused."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from running_explorer import Running

from regard.serve import batching
from regard.serve.batching import Batching, Waiting
from regard.translation.search.beam import Beam
from regard.translation.search.greedy import Greedy
from regard.translation.translator import Translator

TEXTS = ["the cat sat on a mat", "", "no dog", "a dog ran to the cat and sat"]


def test_an_answer_is_the_translation_its_score_and_its_alignment(service: Running, translator: Translator) -> None:
    status, answer, _ = service.ask("/translate", {"texts": TEXTS})
    assert status == 200
    assert len(answer["translations"]) == len(TEXTS)
    for found, one in zip(answer["translations"], translator.translate(TEXTS, search=Beam(3)), strict=True):
        assert found["text"] == one.text
        assert found["score"] == pytest.approx(one.log_probability / (len(one.target_ids) + 1), abs=1e-4)
        assert found["alignment"] == [list(pair) for pair in sorted(one.alignment.pairs)]
        assert found["expected_chrf"] is None
        assert {name: found[name] for name in ("unknown", "missing", "parts", "untranslated", "unlike")} == {
            "unknown": [], "missing": [], "parts": [], "untranslated": False, "unlike": []
        }  # fmt: skip


def test_an_answer_of_a_calibrated_translator_has_the_expected_chrf(
    serving: Callable[..., Running], translator: Translator
) -> None:
    calibration = {"mean_log_probability": [-1.0, 0.0], "chrf": [0.0, 100.0]}
    service = serving(replace(translator, extra={"calibration": calibration}))
    (found,) = service.ask("/translate", {"texts": TEXTS[:1]})[1]["translations"]
    assert found["expected_chrf"] == pytest.approx(100 * max(0, 1 + found["score"]), abs=0.06)


def test_an_answer_names_what_is_unlike_the_training_texts(
    serving: Callable[..., Running], translator: Translator
) -> None:
    usual = {"first": 0.0, "per_letter": 0.0, "surplus": -99.0, "score": -99.0}
    service = serving(replace(translator, extra={"usual": usual}))
    (found,) = service.ask("/translate", {"texts": ["the ẞ"]})[1]["translations"]
    assert found["unknown"] == ["ẞ"]
    assert found["unlike"][0].startswith("unlike the training texts: ")


def test_a_text_that_is_too_long_is_translated_in_parts_or_marked(service: Running, translator: Translator) -> None:
    sentences = ["the cat sat on a mat.", "no dog ran."] * 4
    _, answer, _ = service.ask("/translate", {"texts": [" ".join(sentences), "no " * 40]})
    parts = translator.translate(sentences, search=Beam(3))
    assert answer["translations"][0]["text"] == " ".join(answer["translations"][0]["parts"])
    assert answer["translations"][0]["parts"] == [one.text for one in parts]
    assert answer["translations"][1]["untranslated"]
    assert answer["translations"][1]["text"].startswith("⁇ no no ")


def test_two_hundred_clients_at_once_each_get_their_own_answer(service: Running, translator: Translator) -> None:
    texts = [f"{TEXTS[number % 4]} {'the cat ' * (number % 3)}" for number in range(200)]
    expected = [one.text for one in translator.translate(texts, search=Beam(3))]
    with ThreadPoolExecutor(200) as clients:
        answers = list(clients.map(lambda text: service.ask("/translate", {"texts": [text]}), texts))
    assert [status for status, _, _ in answers] == [200] * 200
    assert [answer["translations"][0]["text"] for _, answer, _ in answers] == expected


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"texts": "the cat"}', "texts must be a list of strings."),
        (b'{"texts": ["the cat", 3]}', "texts must be a list of strings."),
        (b'{"texts": [], "beam": 9}', 'a request must be {"texts": ["…", …]}, with no other keys.'),
        (b"[]", 'a request must be {"texts": ["…", …]}, with no other keys.'),
        (b'{"texts": [', "a request must be JSON in UTF-8."),
        (b"\xff", "a request must be JSON in UTF-8."),
        (b"[" * 100_000, "a request must be JSON in UTF-8."),
        (b'{"texts": ["\\ud800"]}', "text 1 has a lone surrogate, half of a character in UTF-16; remove it."),
        (
            json.dumps({"texts": [""] * 257}).encode(),
            "a request has 257 texts; at most 256 are allowed: send several requests.",
        ),
        (
            json.dumps({"texts": ["", "a" * 10_001]}).encode(),
            "text 2 has 10,001 characters; a text has at most 10,000.",
        ),
    ],
)
def test_a_body_that_is_no_request_is_refused(service: Running, body: bytes, reason: str) -> None:
    assert service.ask("/translate", body=body)[:2] == (400, {"error": reason})


def test_a_request_that_is_too_large_or_of_another_site_is_refused(service: Running) -> None:
    status, reason, _ = service.ask("/translate", body=b'{"texts": ["' + b"a" * 1_000_000 + b'"]}')
    message = "the request has 1,000,015 bytes; this service reads at most 1,000,000."
    assert (status, reason) == (413, {"error": message})
    assert service.ask("/translate", {"texts": []}, Origin="http://elsewhere.org")[0] == 403
    assert service.ask("/translate", {"texts": []}, Host="elsewhere.org")[0] == 421


def test_an_address_or_method_that_the_service_lacks_is_refused(service: Running) -> None:
    end = "; GET /openapi.json describes the service."
    assert service.ask("/nowhere", method="GET")[:2] == (404, {"error": f"GET /nowhere: Not Found{end}"})
    status, reason, headers = service.ask("/translate", method="GET")
    assert (status, reason, headers["allow"]) == (405, {"error": f"GET /translate: Method Not Allowed{end}"}, "POST")


def test_beyond_this_machine_a_token_is_needed(serving: Callable[..., Running], translator: Translator) -> None:
    service = serving(translator, token="secret")
    status, reason, _ = service.ask("/translate", {"texts": []})
    assert (status, reason["error"]) == (
        401,
        "the request has no valid token; open the address that this service printed, or send its token as "
        "Authorization: Bearer TOKEN.",
    )
    assert service.ask("/translate", {"texts": []}, Authorization="Bearer wrong")[0] == 401
    assert service.ask("/translate", {"texts": []}, Authorization="Bearer secret")[:2] == (200, {"translations": []})
    assert service.ask("/health?token=secret", method="GET")[0] == 200
    assert "-H &#x27;Authorization: Bearer secret&#x27;" in service.ask("/?token=secret", method="GET")[1]


def test_what_the_service_says_of_itself(service: Running, translator: Translator) -> None:
    assert service.ask("/health", method="GET")[1] == {"status": "ok", "translator": translator.name}
    _, description, _ = service.ask("/openapi.json", method="GET")
    answer = service.ask("/translate", {"texts": ["no dog"]})[1]["translations"][0]
    described = description["paths"]["/translate"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert described["properties"]["translations"]["items"]["required"] == list(answer)
    _, page, _ = service.ask("/", method="GET")
    assert f"http://{service.host}/translate -H &#x27;Content-Type" in page


def waiting_of(*sizes: int) -> list[Waiting]:
    loop = asyncio.new_event_loop()
    found = [Waiting(["the cat"] * size, loop.create_future()) for size in sizes]
    loop.close()
    return found


def test_what_waits_is_translated_at_once_in_its_order(translator: Translator, monkeypatch: Any) -> None:
    monkeypatch.setattr(batching, "MOST_IN_BATCH", 5)
    waits = Batching(translator, Greedy())
    requests = waiting_of(2, 3, 1, 7, 1)
    waits.waiting.extend(requests)
    waits.arrived.set()
    batches = []
    while waits.waiting:
        batches.append(waits.next_batch())
    assert batches == [requests[:2], requests[2:3], requests[3:4], requests[4:]]
    assert not waits.arrived.is_set()


def test_more_than_may_wait_is_refused(
    serving: Callable[..., Running], translator: Translator, monkeypatch: Any
) -> None:
    service = serving(translator)
    service.ask("/health", method="GET")
    monkeypatch.setattr(batching, "MOST_WAITING", 1)
    status, answer, headers = service.ask("/translate", {"texts": ["the cat", "no dog"]})
    assert (status, answer) == (503, {"error": "too many texts wait for the translator; send the request again later."})
    assert headers["retry-after"] == "1"
    assert service.ask("/translate", {"texts": ["no dog"]})[0] == 200


def test_an_error_reaches_whoever_asked_and_the_service_goes_on(
    serving: Callable[..., Running], translator: Translator, monkeypatch: Any
) -> None:
    def fail(self: Batching, requests: Any) -> Any:
        raise RuntimeError("out of memory")

    service = serving(translator)
    with monkeypatch.context() as patched:
        patched.setattr(Batching, "batch_answers", fail)
        assert service.ask("/translate", {"texts": ["no dog"]})[0] == 500
    assert service.ask("/translate", {"texts": ["no dog"]})[0] == 200


def test_the_command_serves_and_ctrl_c_ends_it(translator_folder: Path) -> None:
    int8 = Translator.load(translator_folder, "cpu", int8=True)
    options = "--port", "0", "--device", "cpu", "--int8"
    command = [sys.executable, "-m", "regard", "serve", str(translator_folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        line = running.stdout.readline()
        assert line.startswith("serving en-de at http://127.0.0.1:")
        port = int(line.split(":")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=60) as broken:  # it goes before its request is whole
            head = f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            broken.sendall(f'{head}Content-Length: 99\r\n\r\n{{"texts"'.encode())
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/health")
        assert json.loads(connection.getresponse().read()) == {"status": "ok", "translator": "en-de"}
        connection.request("POST", "/translate", json.dumps({"texts": TEXTS}), {"Content-Type": "application/json"})
        answered = [one["score"] for one in json.loads(connection.getresponse().read())["translations"]]
        connection.close()
        running.send_signal(signal.SIGINT)
        assert running.wait(30) in (0, 130, -signal.SIGINT)
        assert "Traceback" not in running.stderr.read()
    assert answered == pytest.approx([one.mean_log_probability for one in int8.translate(TEXTS)], abs=1e-6)
