"""The texts of several requests are translated as one batch, and each request gets its own answers."""

from types import SimpleNamespace

from regard.serve import batching


def test_each_request_of_a_batch_gets_the_answers_to_its_texts(monkeypatch):
    monkeypatch.setattr(batching, "answer_to", lambda *parts: {"translations": list(zip(*parts, strict=True))})
    requests = batching.Batching.__new__(batching.Batching)
    requests.search = None
    requests.translator = SimpleNamespace(
        translate=lambda texts, search, split: [text.upper() for text in texts],
        align=lambda translations: [f"0-0 {text}" for text in translations],
    )
    answers = requests.batch_answers([["a", "b"], ["c"], ["d", "e"]])
    assert [answer["translations"] for answer in answers] == [
        [(text, f"0-0 {text}") for text in texts] for texts in ("AB", "C", "DE")
    ]
