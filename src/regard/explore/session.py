"""The model of the explorer, and its answers to requests: the trace of a text, or the effect of changes to heads."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.by_hand.translator_head import translate_or_score
from regard.errors import InputError
from regard.explore.continuation import continued_trace, generated_ids, sampling_config
from regard.explore.map import HeadRequest, Map
from regard.explore.question import Question
from regard.tracing.comparison import compare
from regard.tracing.focus import focus_on
from regard.tracing.for_page import trace_for_page
from regard.tracing.generation import N_NEXT, next_tokens
from regard.tracing.model_loading import LoadedModel, load, load_with_lm_head
from regard.tracing.trace import Trace
from regard.translation.search.beam import Beam
from regard.translation.translation import Translation
from regard.translation.translator import Translator
from regard.translation.translator_folder import holds_translator
from regard.views.page.data import continuation_record, fits_page, map_data, page_data

FIRST_TEXT = "The snake is very dangerous because it has a venom."
"""The text that the explorer shows first, if it is started without a text."""

MAX_VALUES = 2_000_000
"""The data for the page contain value vectors if these have at most this many numbers in all layers together.

The limit is higher than for a page that is written to a file, because these data are not stored.
"""

N_HEADS = 12
"""The number of heads in the answer of `effect`: the heads whose attention changes most."""


class Session:
    """Answers the requests to the explorer, with one model in memory at a time.

    The methods must not be called concurrently.
    """

    def __init__(self, model: str | None = None, shown: Trace | None = None, text: str = FIRST_TEXT) -> None:
        """Choose the model, or a saved trace to show.

        Args:
            model: the name or folder of a Hugging Face model, or the folder of a translator; None = MiniLM.
            shown: a saved trace, which is shown first. If `shown` is given and `model` is not, no other text can be
                traced.
            text: the text that is shown first if there is no saved trace. A translator reads only the beginning of a
                text that is too long.
        """
        self.model = model
        self.text = text
        self.shown = shown
        self.map: Map | None = None
        self.loaded: LoadedModel | Translator | None = None  # the model named `self.model`
        self.can_write = False  # whether the loaded model can generate tokens

    def first_page(self) -> dict[str, Any]:
        if self.shown is None:
            return self.answer(Question(text=self.text))
        return self.page(self.shown) | {"live": self.model is not None, "next": []}

    def answer(self, question: Question) -> dict[str, Any]:
        """Run the model on the text of a request, and return the trace as the JSON data of a page.

        Added to the data of `page`: "live", whether the page can send other texts; "next", the most probable next
        tokens; and for a language model "going", with which the reader chooses the tokens that follow.
        """
        model = self.load(question.model, generates=question.new_tokens is not None)
        if isinstance(model, Translator):
            translation = self.translation(model, question)
            return self.page(translation.page_trace, translation.page_record()) | {"live": True, "next": []}
        trace = self.trace(question)
        answer = self.page(trace) | {"live": True, "next": self.next_tokens(trace)}
        if answer["next"] and trace.kinds == ("decoder",) and "map" not in answer:
            assert trace.output is not None  # without an output, there would be no next tokens
            added = generated_ids(model.tokenizer, trace)  # chosen by the reader, or generated
            answer["going"] = continuation_record(question.text, continuation=added, logits=trace.output[0, -1])
        return answer

    def page(self, trace: Trace, alignment: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return a trace as the JSON data of a page.

        The data of a long text contain no weights: the page requests them later from a `Map`, which stays in memory
        until another long text is read.

        Args:
            alignment: the result of `Translation.page_record`; None = the trace is not of a translation.
        """
        if fits_page(trace):
            return page_data(trace, focus_on(trace), alignment, MAX_VALUES)
        if self.map is None or self.map.trace is not trace:
            self.map = Map(trace, 1 if self.map is None else self.map.number + 1)
        return map_data(trace, self.map.record())

    def map_for(self, request: HeadRequest) -> Map:
        if self.map is None or self.map.number != request.map:
            raise InputError("this map is no longer in memory, because another text was read; load the page again.")
        return self.map

    def effect(self, question: Question) -> dict[str, Any]:
        """Run the model without and with the changes to heads in a request, and return the differences.

        Returns:
            "output": the largest absolute difference between the two outputs; None if the model has no output.
            "heads": the heads whose attention changes most. For each head, "token" is the query whose weights change
                most, and "moved" is the fraction of this query's attention that goes to other keys.
            "before", "after": the most probable next tokens without and with the changes, with probabilities.
        """
        changes = question.change_objects()
        if not changes:
            raise InputError("there is no change; cut an edge, silence a head, or change its temperature first.")
        before, after = self.trace(replace(question, changes=())), self.trace(question)
        difference = compare(before, after)
        largest = difference.largest(N_HEADS)
        return {
            "output": difference.output,
            "heads": [{"head": head, "token": token, "moved": moved} for head, token, moved in largest if moved > 0],
            "before": self.next_tokens(before),
            "after": self.next_tokens(after),
        }

    def trace(self, question: Question) -> Trace:
        """Return the trace of a request's text, made with the request's changes to heads."""
        model = self.load(question.model, generates=question.new_tokens is not None)
        if isinstance(model, Translator):
            return self.translation(model, question).trace
        if question.continuation:
            return continued_trace(model, question)
        return trace_for_page(
            model.model,
            question.text,
            target=question.target,
            tokenizer=model.tokenizer,
            truncate=question.truncate,
            new_tokens=question.new_tokens,
            generation=sampling_config(model, question),
            changes=question.change_objects(),
        )

    def translation(self, translator: Translator, question: Question) -> Translation:
        """Translate the text of a request; or, if the request has a target text, score that text as its translation."""
        if question.changes or question.continuation or question.new_tokens is not None:
            raise InputError("a translator's heads cannot be changed here, and it writes its whole translation.")
        truncate = question.truncate or question.text == self.text
        return translate_or_score(translator, question.text, question.target, truncate, n_best=Beam().size)

    def load(self, name: str | None, generates: bool) -> LoadedModel | Translator:
        """Return the model with this name; load it first if it is not in memory.

        Args:
            name: None = the model used last; before any use, the session's `model`.
            generates: whether the model shall generate tokens, which requires a language modelling head.
        """
        if self.shown is not None and self.model is None:
            raise InputError("this explorer shows a saved trace; start it with a model to type another text.")
        name = self.model if name is None else name
        if self.loaded is None or name != self.model or (generates and not self.can_write):
            self.loaded = None  # frees the memory of the old model before the new model is loaded
            if name is not None and holds_translator(Path(name)):
                self.loaded, self.can_write = Translator.load(name), True
            else:
                # to generate, any model needs a language modelling head; otherwise only a causal model gets one
                loaded = load(name, generates=True) if generates else load_with_lm_head(name)
                self.loaded, self.can_write = loaded, generates or loaded.model.can_generate()
            self.model = name
        return self.loaded

    def next_tokens(self, trace: Trace) -> list[tuple[str, float]]:
        """Return the most probable next tokens after the text of a trace, with probabilities.

        The list is empty for a translator, and for a model without a language modelling head.
        """
        model = self.loaded
        if not isinstance(model, LoadedModel) or trace.output is None or not trace.target:
            return []
        is_hidden_state = trace.output.shape[-1] < len(model.tokenizer)  # logits have a number for each token id
        if is_hidden_state or model.model.get_output_embeddings() is None:
            return []
        return next_tokens(model.tokenizer, trace.output[0, -1], N_NEXT)
