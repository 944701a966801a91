"""A translator: a model and its vocabularies, from texts to translations.

regard train en.txt ko.txt --out en-ko
Translator.load("en-ko").translate(["I am a student."])[0].text
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.attend import Attended, attend
from regard.attention.pattern import Pattern
from regard.attention.precision import widest_type
from regard.attention.representation import type_name
from regard.device import device_named
from regard.errors import InputError
from regard.text.cleaning import tidied
from regard.text.vocabulary import BOS, EOS, UNK, Vocabulary
from regard.tracing.trace import Trace
from regard.translation.alignment import Alignment, cross_weights
from regard.translation.length_batches import (
    BATCH_TOKENS,
    groups_within_budget,
    n_tokens_of_longer_side,
    request_batches,
)
from regard.translation.model_protocol import ForcedDecoding, TranslatingModel
from regard.translation.pieces import UNKNOWN, text_of_pieces, trace_tokens, words_and_pieces
from regard.translation.request import Request, check_texts, prefix_for_each
from regard.translation.search.beam import Beam
from regard.translation.search.interface import Hypothesis, Search, SourceBatch, pad_sequences
from regard.translation.search.top_logits import log_softmax
from regard.translation.translation import Translation
from regard.translation.translator_folder import read_translator, write_translator

CERTAIN = Hypothesis(tokens=(), log_probability=0.0, score=0.0)
"""The translation of an empty text."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Translator:
    """A model with the vocabularies of its two languages.

    Attributes:
        model: any that does what `TranslatingModel` says.
        name: what to call it.
        device: where the model is.
        extra: what was kept with it, such as how it was trained.
    """

    model: TranslatingModel
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    name: str = "translator"
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: str | Path, device: str | torch.device | None = None) -> "Translator":
        """A translator from the folder that `regard train` or `save` wrote.

        Args:
            folder: where it is.
            device: such as cpu or cuda:1; None = a GPU where there is one, else the CPU.

        Raises:
            InputError: there is no translator in the folder, or it is damaged; or there is no such device.
        """
        place = device_named(device)
        contents = read_translator(Path(folder), place)
        return cls(
            model=contents.model,
            source_vocabulary=contents.source_vocabulary,
            target_vocabulary=contents.target_vocabulary,
            name=Path(folder).resolve().name,
            device=place,
            extra=contents.extra,
        )

    def save(self, folder: str | Path) -> Path:
        """Write the translator into a folder, whole."""
        return write_translator(
            Path(folder), self.model, self.source_vocabulary, self.target_vocabulary, dict(self.extra)
        )

    def translate(
        self,
        texts: Sequence[str],
        *,
        search: Search = Beam(),  # noqa: B008 (frozen)
        prefix: str | Sequence[str] | None = None,
        truncate: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        first: int = 1,
    ) -> list[Translation]:
        """Translate texts, each by itself; the translations are in the texts' order.

        Texts of like length go through the model together, which changes nothing but the time. A text without a word
        has an empty translation, of probability 1.

        Args:
            texts: usually a sentence each.
            search: how to look for the best text: `Beam`, `Greedy` or `Sample`.
            prefix: what every translation must begin with, or one for each text. A prefix may end within a word.
            truncate: read only the beginning of a text that is too long, instead of refusing.
            batch_tokens: about how many source tokens go through the model together.
            first: the number of the first text, for messages and for samples, where more than these are translated.

        Raises:
            InputError: a text or a prefix is longer than the model takes, or a prefix has letters that it does not
                know; by number.
            TypeError: one text instead of a list of them, or one that is no str; a search that is none.
            ValueError: not as many prefixes as texts.
        """
        if isinstance(texts, str):
            raise TypeError(f"translate takes a list of texts; got the text {texts!r}: put it in a list.")
        if isinstance(search, type) or not isinstance(search, Search):
            raise TypeError(f"search is {type_name(search)}; it takes an object such as Beam().")
        check_texts(texts, "the text", first)
        read = self.source_vocabulary.encode_all(texts)
        starts = prefix_for_each(prefix, texts, first)
        forced = self.target_vocabulary.encode_all(starts)
        for number, (start, ids) in enumerate(zip(starts, forced, strict=True), first):
            if UNK in ids:
                strange = ", ".join(self.target_vocabulary.unknown(start))
                raise InputError(f"the prefix of line {number} has what the translator cannot write: {strange}.")
        each = zip(texts, read, forced, strict=True)
        requests = [self._request(place, *one, first, truncate) for place, one in enumerate(each)]
        found = {one.place: self._translation(one, [CERTAIN]) for one in requests if one.empty}
        with evaluation_mode(self.model):
            for batch in request_batches([one for one in requests if not one.empty], batch_tokens):
                sources = SourceBatch.of(
                    self.model,
                    [one.ids for one in batch],
                    [one.prefix for one in batch],
                    numbers=[first + one.place for one in batch],
                    device=self.device,
                )
                for one, hypotheses in zip(batch, search.run(self.model, sources), strict=True):
                    found[one.place] = self._translation(one, hypotheses)
        return [found[place] for place in range(len(texts))]

    def score(
        self,
        texts: Sequence[str],
        targets: Sequence[str],
        *,
        truncate: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        first: int = 1,
    ) -> list[Translation]:
        """Translations that are given, read as this translator's own: how likely each is, and what it looks at.

        Their score is log P(target | source), as log_probability is.

        Args:
            texts, targets: line by line; the other arguments are those of `translate`.

        Raises:
            InputError: a text or a target is longer than the model takes; by number.
            TypeError: a text or a target that is no str.
            ValueError: not as many targets as texts.
        """
        check_texts(texts, "the text", first)
        check_texts(targets, "the target", first)
        if len(targets) != len(texts):
            raise ValueError(f"got {len(targets)} targets for {len(texts)} texts; give one for each.")
        read, written = self.source_vocabulary.encode_all(texts), self.target_vocabulary.encode_all(targets)
        each = enumerate(zip(texts, read, written, strict=True))
        requests = [self._request(place, *one, first, truncate, "target") for place, one in each]
        given = [
            self._given(self._candidate(one, Hypothesis(tokens=one.prefix, log_probability=0.0, score=0.0)), target)
            for one, target in zip(requests, targets, strict=True)
        ]
        found: dict[int, Translation] = {}
        order = sorted(range(len(given)), key=lambda place: -n_tokens_of_longer_side(given[place]))
        with evaluation_mode(self.model), torch.no_grad():
            for places in groups_within_budget(
                order, lambda place: n_tokens_of_longer_side(given[place]), batch_tokens
            ):
                logits = self._read_again([given[place] for place in places]).logits
                known = log_softmax(logits).to(widest_type(logits.device))
                for place, rows in zip(places, known, strict=True):
                    ids = torch.tensor([*given[place].target_ids, EOS], device=rows.device)
                    total = float(rows[: len(ids)].gather(1, ids[:, None]).sum())
                    found[place] = replace(given[place], score=total, log_probability=total)
        return [found[place] for place in range(len(texts))]

    def align(
        self, translations: Sequence[Translation], layer: int | None = None, batch_tokens: int = BATCH_TOKENS
    ) -> list[Alignment]:
        """Which source words the words of translations looked at, by reading the translations once more.

        Args:
            translations: of this translator.
            layer: of the decoder, counted from 0, whose heads' mean it is; None = the one before the last.
            batch_tokens: about how many tokens go through the model together.

        Raises:
            ValueError: there is no such layer.
        """
        found: dict[int, Alignment] = {}
        order = sorted(range(len(translations)), key=lambda place: -n_tokens_of_longer_side(translations[place]))
        with evaluation_mode(self.model), torch.no_grad():
            for places in groups_within_budget(
                order, lambda place: n_tokens_of_longer_side(translations[place]), batch_tokens
            ):
                batch = [translations[place] for place in places]
                weights = cross_weights(self._read_again(batch).cross, layer).cpu()
                for place, one, rows in zip(places, batch, weights, strict=True):
                    found[place] = self._alignment(one, rows[: len(one.target_ids) + 1, : len(one.source_ids)])
        return [found[place] for place in range(len(translations))]

    def copy_unknown(self, translations: Sequence[Translation]) -> list[Translation]:
        """Translations with the source's own letters where the translator wrote that it does not know what to write.

        They are the letters of the unknown source piece that was looked at most there; where the source has none, the
        word that the alignment names. From a source without a word nothing is copied.

        Source: Luong et al. 2015, "Addressing the rare word problem", section 3.3 (here by attention).
        """
        lacking = [one for one in translations if UNK in one.target_ids and one.source_ids != (EOS,)]
        alignments = dict(zip(map(id, lacking), self.align(lacking), strict=True))
        done = [self._copied(one, alignments[id(one)]) if id(one) in alignments else one for one in translations]
        return [
            replace(one, candidates=tuple(self.copy_unknown(one.candidates))) if one.candidates else one for one in done
        ]

    def trace(self, translation: Translation) -> Trace:
        """Who looked at whom, in every layer and head, while the translation is read once more."""
        with evaluation_mode(self.model), torch.no_grad():
            predicted = self._read_again([translation])
            kinds = {"encoder": predicted.encoder, "decoder": predicted.decoder, "cross": predicted.cross}
            attended = {
                kind: {layer: attend_again(pattern) for layer, pattern in enumerate(patterns)}
                for kind, patterns in kinds.items()
                if patterns
            }
        begin, end = self.target_vocabulary.pieces([BOS])[0], {EOS}
        ids, tokens = (BOS, *translation.target_ids), (begin, *translation.target_pieces)
        return Trace(
            model=self.name,
            text=translation.source,
            target_text=translation.text,
            source=trace_tokens(translation.source_pieces, translation.source_ids, end),
            target=trace_tokens(tokens, ids, {BOS}),
            attended=attended,
        )

    # One text

    def _request(
        self,
        place: int,
        text: str,
        read: Sequence[int],
        forced: Sequence[int],
        first: int,
        truncate: bool,
        what: str = "prefix",
    ) -> Request:
        """A text as the model reads it, from its pieces and those of what it must begin with, or be.

        Raises:
            InputError: one of them is too long.
        """
        limit = self.model.config.max_tokens - 1  # EOS, and BOS on the other side, take a place
        ids = read if text.strip() else []
        if len(ids) > limit and not truncate:
            raise InputError(
                f"line {first + place} has {len(ids):,} pieces and the translator reads at most {limit:,}; "
                "divide it, or read only its beginning with --truncate (truncate=True)."
            )
        if len(forced) > limit:
            raise InputError(
                f"the {what} of line {first + place} has {len(forced):,} pieces and the translator writes at most "
                f"{limit:,}; shorten it."
            )
        return Request(
            place=place,
            source=text,
            ids=(*ids[:limit], EOS),
            prefix=tuple(forced),
            unknown=tuple(self.source_vocabulary.unknown(text)) if UNK in ids else (),
            left_out=max(len(ids) - limit, 0),
        )

    def _translation(self, request: Request, hypotheses: Sequence[Hypothesis]) -> Translation:
        candidates = tuple(self._candidate(request, hypothesis) for hypothesis in hypotheses)
        return replace(candidates[0], candidates=candidates)

    def _candidate(self, request: Request, hypothesis: Hypothesis) -> Translation:
        source = self.source_vocabulary.surfaces(request.source)[: len(request.ids) - 1]
        pieces = zip(hypothesis.tokens, self.target_vocabulary.pieces(hypothesis.tokens), strict=True)
        target = tuple(UNKNOWN if one == UNK else piece for one, piece in pieces)
        known = UNK not in hypothesis.tokens
        return Translation(
            source=request.source,
            text=self.target_vocabulary.decode(list(hypothesis.tokens)) if known else text_of_pieces(target),
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            source_ids=request.ids,
            source_pieces=(*source, *self.source_vocabulary.pieces([EOS])),
            target_ids=hypothesis.tokens,
            target_pieces=target,
            unknown=request.unknown,
            left_out=request.left_out,
            cut=hypothesis.cut,
            translator=self,
        )

    def _given(self, translation: Translation, target: str) -> Translation:
        """A translation whose text was given, with that text's letters for what is unknown in it."""
        return replace(translation, text=target, target_pieces=tuple(self.target_vocabulary.surfaces(target)))

    # What it looked at

    def _read_again(self, translations: Sequence[Translation]) -> ForcedDecoding:
        """The model's forced pass over translations, BOS before each."""
        source, lengths = pad_sequences([one.source_ids for one in translations])
        target, _ = pad_sequences([(BOS, *one.target_ids) for one in translations])
        return self.model(source.to(self.device), lengths.to(self.device), target.to(self.device))

    def _alignment(self, translation: Translation, weights: Tensor) -> Alignment:
        """The alignment of one translation from what each of its pieces looked at, EOS last."""
        source_words, source_word_of = words_and_pieces(
            translation.source, translation.source_pieces[:-1], whole=not translation.left_out
        )
        target_words, target_word_of = words_and_pieces(translation.text, translation.target_pieces)
        return Alignment(
            source_words=source_words,
            target_words=target_words,
            source_pieces=translation.source_pieces,
            target_pieces=(*translation.target_pieces, *self.target_vocabulary.pieces([EOS])),
            piece_weights=weights,
            source_word_of=source_word_of,
            target_word_of=target_word_of,
        )

    def _copied(self, translation: Translation, alignment: Alignment) -> Translation:
        """A translation with letters of the source for what is unknown in it."""
        pieces = list(translation.target_pieces)
        unknown = [place for place, one in enumerate(translation.source_ids) if one == UNK]
        for row, one in enumerate(translation.target_ids):
            if one != UNK:
                continue
            if unknown:
                largest = alignment.piece_weights[row, unknown].argmax()
                pieces[row] = translation.source_pieces[unknown[int(largest)]]
            else:
                largest = alignment.weights[alignment.target_word_of[row]].argmax()
                pieces[row] = tidied(alignment.source_words[int(largest)])
        return replace(translation, text=text_of_pieces(pieces), target_pieces=tuple(pieces))

    def __repr__(self) -> str:
        return (
            f"Translator({self.name!r}, {type(self.model).__name__}, source={len(self.source_vocabulary)}, "
            f"target={len(self.target_vocabulary)}, device={str(self.device)!r})"
        )


def attend_again(pattern: Pattern) -> Attended:
    """The attention step of a pattern, run again, so that a trace can compare the kernel with the weights."""
    return attend(
        pattern.query,
        pattern.key,
        pattern.value,
        score=pattern.score,
        mask=pattern.mask,
        normalise=pattern.normalise,
    )


@contextmanager
def evaluation_mode(model: TranslatingModel) -> Iterator[None]:
    """Within this, a module is in evaluation mode."""
    in_training = [module for module in model.modules() if module.training] if isinstance(model, nn.Module) else []
    for module in in_training:
        module.training = False
    try:
        yield
    finally:
        for module in in_training:
            module.training = True
