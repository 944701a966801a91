"""Translate the texts of several requests as one batch.

While the model translates a batch, new requests wait in a queue; afterwards the waiting requests become the next batch.
So a single request is answered without delay, and many requests are translated at the speed of batches.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool

from regard.serve.question import answer_to
from regard.translation.search.interface import Search
from regard.translation.translator import Translator

MOST_IN_BATCH, MOST_WAITING = 512, 4096
"""The most texts in a batch, and the most texts that may wait in the queue."""


class TooManyWaitingError(Exception):
    """More than `MOST_WAITING` texts would wait in the queue."""


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """A request in the queue: its texts, and an asyncio future for the answer.

    If the request is cancelled, its future is done before there is an answer.
    """

    texts: Sequence[str]
    answer: "asyncio.Future[dict[str, Any]]"


class Batching:
    """Translates the texts of all requests with one translator, one batch after another."""

    def __init__(self, translator: Translator, search: Search) -> None:
        self.translator, self.search = translator, search
        self.waiting: deque[Waiting] = deque()
        self.arrived = asyncio.Event()

    async def translate(self, texts: Sequence[str]) -> dict[str, Any]:
        """Put a request into the queue, wait for its translation, and return the answer, {"translations": […]}."""
        if sum(len(request.texts) for request in self.waiting) + len(texts) > MOST_WAITING:
            raise TooManyWaitingError
        request = Waiting(texts, asyncio.get_running_loop().create_future())
        self.waiting.append(request)
        self.arrived.set()
        return await request.answer

    async def work(self) -> None:
        """Translate the waiting requests batch by batch, in an endless loop that the server runs as an asyncio task."""
        while True:
            await self.arrived.wait()
            batch = self.next_batch()
            try:
                answers = await run_in_threadpool(self.batch_answers, [request.texts for request in batch])
            except Exception as error:  # every request of the batch gets this error
                for request in batch:
                    if not request.answer.done():
                        request.answer.set_exception(error)
                continue
            for request, answer in zip(batch, answers, strict=True):
                if not request.answer.done():
                    request.answer.set_result(answer)

    def next_batch(self) -> list[Waiting]:
        """Take requests from the front of the queue, which must not be empty.

        The requests have at most `MOST_IN_BATCH` texts together, unless the first request alone has more.
        """
        batch = [self.waiting.popleft()]
        n_texts = len(batch[0].texts)
        while self.waiting and n_texts + len(self.waiting[0].texts) <= MOST_IN_BATCH:
            batch.append(self.waiting.popleft())
            n_texts += len(batch[-1].texts)
        if not self.waiting:
            self.arrived.clear()
        return batch

    def batch_answers(self, requests: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        texts = [text for request in requests for text in request]
        translations = self.translator.translate(texts, search=self.search, split=True)
        alignments = self.translator.align(translations)
        answers, start = [], 0
        for request in requests:
            part = slice(start, start + len(request))
            answers.append(answer_to(translations[part], alignments[part]))
            start += len(request)
        return answers
