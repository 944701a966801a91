"""Ask the worker of a site about texts, without the page; compare its translations with those of Python."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from playwright.sync_api import Page

ASK = """async ({ texts, shown, kept, ...start }) => {
  const script = await (await fetch(new URL("worker.js", start.address))).text();
  const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  const answers = [];
  const waitsForMoves = kept.includes("moves");
  worker.postMessage(start);
  for (const [id, text] of texts.entries()) {
    answers.push(await new Promise((answered) => {
      let trace;
      worker.onmessage = ({ data }) => {
        if (data.id !== id) return;
        if (data.trace) trace = data.trace;
        if (data.trace && !waitsForMoves) answered(trace); // the next question stops the computation of the movements
        else if (data.refusal) answered(data.refusal);
        else if (data.moves) answered({ ...trace, moves: data.moves, sent: Object.keys(trace.numbers) });
      };
      worker.postMessage({ id, model: 0, text, changes: null, ...shown });
    }));
  }
  worker.terminate();
  const named = (answer) => kept.filter((name) => name in answer).map((name) => [name, answer[name]]);
  return answers.map((answer) => Object.fromEntries(named(answer)));
}"""


def answers(page: Page, address: str, texts: Sequence[str], kept: Sequence[str], **shown: Any) -> list[dict[str, Any]]:
    """Ask a worker of the site about texts, one after another; return its traces and refusals.

    Args:
        page: the page of the site.
        address: the address of the site.
        kept: the names of the parts of a trace or a refusal to return; "moves" = the movements, which the worker sends
            after the trace; "sent" = the names of the arrays in the trace, returned only with "moves".
        shown: the kind, layer and head that the page would show.
    """
    site = json.loads(page.locator("#site").text_content() or "")
    asked = site | {"address": address, "texts": list(texts), "shown": shown, "kept": list(kept)}
    found: list[dict[str, Any]] = page.evaluate(ASK, asked)
    return found


def check_alignment(found: dict[str, Any], wanted: dict[str, Any], text: str) -> None:
    """Compare the candidate translations of a text, and their alignments, in a site with those that Python computes."""
    assert found["rule"] == wanted["rule"]
    for one, exact in zip(found["candidates"], wanted["candidates"], strict=True):
        for name in ("text", "source_words", "target_words", "source_word_of", "target_word_of"):
            assert one[name] == exact[name], (name, text)
        for name in ("score", "log_probability"):
            assert one[name] == pytest.approx(exact[name], abs=1e-4), (name, text)
        for side in ("source", "target"):
            assert one["pieces"][side] == exact["pieces"][side], text
        for own, other in ((one, exact), (one["pieces"], exact["pieces"])):
            for row, exact_row in zip(own["weights"], other["weights"], strict=True):
                assert row == pytest.approx(exact_row, abs=1e-4), text
