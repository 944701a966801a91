"""A translator: a model with its two vocabularies, which turns texts into translations.

regard train en.txt ko.txt --out en-ko
Translator.load("en-ko").translate(["I am a student."])[0].text
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from regard.attention.representation import type_name
from regard.device import device_named
from regard.errors import InputError
from regard.text.vocabulary import BOS, EOS, UNK, Vocabulary
from regard.tracing.trace import Trace
from regard.translation.alignment import Alignment
from regard.translation.copy_unknown import with_copied_letters
from regard.translation.evaluation_mode import evaluation_mode
from regard.translation.forced_decoding import log_probabilities, piece_weights, trace_translation, word_alignment
from regard.translation.length_batches import BATCH_TOKENS, length_batches
from regard.translation.model_protocol import TranslatingModel
from regard.translation.pieces import UNKNOWN, text_of_pieces
from regard.translation.request import Request, check_texts, prefix_for_each, read_requests
from regard.translation.search.beam import Beam
from regard.translation.search.interface import Hypothesis, Search, SourceBatch
from regard.translation.translation import Translation
from regard.translation.translator_folder import read_translator, write_translator

EMPTY_TEXT = Hypothesis(tokens=(), log_probability=0.0, score=0.0)
"""The translation of a text without a word; its probability is 1."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Translator:
    """A model with the vocabularies of its two languages.

    Attributes:
        model: a `Transformer`, a `Recurrent`, or any other `TranslatingModel`.
        name: the translator's name in traces.
        device: the device of the model.
        extra: values stored with the translator, such as the settings of its training.
    """

    model: TranslatingModel
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    name: str = "translator"
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: str | Path, device: str | torch.device | None = None) -> "Translator":
        """Load a translator from a folder that `regard train` or `save` wrote.

        Args:
            folder: the folder.
            device: such as cpu or cuda:1; None = a GPU if there is one, else the CPU.

        Raises:
            InputError: the folder holds no translator or a damaged one, or the device does not exist.
        """
        chosen_device = device_named(device)
        contents = read_translator(Path(folder), chosen_device)
        return cls(
            model=contents.model,
            source_vocabulary=contents.source_vocabulary,
            target_vocabulary=contents.target_vocabulary,
            name=Path(folder).resolve().name,
            device=chosen_device,
            extra=contents.extra,
        )

    def save(self, folder: str | Path) -> Path:
        """Write the translator into a folder."""
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
        """Translate each text by itself; return the translations in the order of the texts.

        Texts of similar length go through the model together, which changes nothing but the time. A text without a word
        has an empty translation, of probability 1.

        Args:
            texts: usually a sentence each.
            search: the algorithm: `Beam`, `Greedy` or `Sample`.
            prefix: the beginning of every translation, or one beginning for each. A prefix may end within a word.
            truncate: read only the beginning of a text that is too long, instead of refusing.
            batch_tokens: the number of source tokens of a batch.
            first: the line number of the first text, for messages and samples, if the texts are a part of more.

        Raises:
            InputError: a text or a prefix is longer than the model takes, or a prefix has characters that it does not
                know; the message has the line number.
            TypeError: `texts` is a single text, a text is not a str, or `search` is not a search.
            ValueError: the number of prefixes is not the number of texts.
        """
        if isinstance(texts, str):
            raise TypeError(f"translate takes a list of texts; got the text {texts!r}: put it in a list.")
        if isinstance(search, type) or not isinstance(search, Search):
            raise TypeError(f"search is {type_name(search)}; it takes an object such as Beam().")
        check_texts(texts, "the text", first)
        prefixes = prefix_for_each(prefix, texts, first)
        encoded = self.target_vocabulary.encode_all(prefixes)
        for number, (text, ids) in enumerate(zip(prefixes, encoded, strict=True), first):
            if UNK in ids:
                unknown = ", ".join(self.target_vocabulary.unknown(text))
                raise InputError(
                    f"the prefix of line {number} has characters that the translator cannot write: {unknown}."
                )
        requests = read_requests(
            texts, encoded, self.source_vocabulary, self._most_pieces, first=first, truncate=truncate
        )
        found = {one.index: self._translation(one, [EMPTY_TEXT]) for one in requests if one.empty}
        with evaluation_mode(self.model):
            for n_prefix in sorted({len(ids) for ids in encoded}):
                alike = [one for one in requests if not one.empty and len(one.prefix) == n_prefix]
                for indices in length_batches([len(one.ids) for one in alike], batch_tokens):
                    batch = [alike[index] for index in indices]
                    for one, hypotheses in zip(batch, self._search(search, batch, first), strict=True):
                        found[one.index] = self._translation(one, hypotheses)
        return [found[index] for index in range(len(texts))]

    def score(
        self,
        texts: Sequence[str],
        targets: Sequence[str],
        *,
        truncate: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        first: int = 1,
    ) -> list[Translation]:
        """Score translations that somebody else made: let the model read each text together with its target.

        Returns a `Translation` for each pair, with log P(target | source) as score and as log_probability.

        Args:
            texts: the source texts.
            targets: the translation of each text; the other arguments are those of `translate`.

        Raises:
            InputError: a text or a target is longer than the model takes; the message has the line number.
            TypeError: a text or a target is not a str.
            ValueError: the number of targets is not the number of texts.
        """
        check_texts(texts, "the text", first)
        check_texts(targets, "the target", first)
        if len(targets) != len(texts):
            raise ValueError(f"got {len(targets)} targets for {len(texts)} texts; give one for each.")
        requests = read_requests(
            texts,
            self.target_vocabulary.encode_all(targets),
            self.source_vocabulary,
            self._most_pieces,
            first=first,
            truncate=truncate,
            target_name="target",
        )
        translations = [
            replace(
                self._candidate(one, Hypothesis(tokens=one.prefix, log_probability=0.0, score=0.0)),
                text=target,
                target_pieces=tuple(self.target_vocabulary.surfaces(target)),
            )
            for one, target in zip(requests, targets, strict=True)
        ]
        totals = log_probabilities(self.model, translations, self.device, batch_tokens)
        return [
            replace(one, score=total, log_probability=total) for one, total in zip(translations, totals, strict=True)
        ]

    def align(
        self, translations: Sequence[Translation], layer: int | None = None, batch_tokens: int = BATCH_TOKENS
    ) -> list[Alignment]:
        """Align the words of translations with source words, by reading the translations once more.

        Args:
            translations: translations that this translator made or scored.
            layer: the decoder layer whose mean over the heads is taken, counted from 0; None = the last but one.
            batch_tokens: the number of tokens of a batch.

        Raises:
            ValueError: the layer does not exist.
        """
        weights = piece_weights(self.model, translations, layer, self.device, batch_tokens)
        (end,) = self.target_vocabulary.pieces([EOS])
        return [word_alignment(one, rows, end) for one, rows in zip(translations, weights, strict=True)]

    def copy_unknown(self, translations: Sequence[Translation]) -> list[Translation]:
        """Replace pieces of translations that the translator does not know by letters of the source.

        The letters are those of the unknown source piece with the largest attention weight; if the source has none,
        those of the word that the alignment names. From a source without a word nothing is copied.

        Source: Luong et al. 2015, "Addressing the rare word problem", section 3.3 (here by attention).
        """
        unknown = [one for one in translations if UNK in one.target_ids and one.source_ids != (EOS,)]
        alignments = dict(zip(map(id, unknown), self.align(unknown), strict=True))
        done = [with_copied_letters(one, alignments[id(one)]) if id(one) in alignments else one for one in translations]
        return [
            replace(one, candidates=tuple(self.copy_unknown(one.candidates))) if one.candidates else one for one in done
        ]

    def trace(self, translation: Translation) -> Trace:
        """Trace the attention in every layer and head while the model reads the translation once more."""
        (begin,) = self.target_vocabulary.pieces([BOS])
        return trace_translation(self.model, translation, self.device, name=self.name, begin_piece=begin)

    @property
    def _most_pieces(self) -> int:
        return self.model.config.max_tokens - 1  # one token is EOS in the source, and BOS in the target

    def _search(self, search: Search, batch: Sequence[Request], first: int) -> list[tuple[Hypothesis, ...]]:
        sources = SourceBatch.of(
            self.model,
            [one.ids for one in batch],
            [one.prefix for one in batch],
            numbers=[first + one.index for one in batch],
            device=self.device,
        )
        return search.run(self.model, sources)

    def _translation(self, request: Request, hypotheses: Sequence[Hypothesis]) -> Translation:
        candidates = tuple(self._candidate(request, hypothesis) for hypothesis in hypotheses)
        return replace(candidates[0], candidates=candidates)

    def _candidate(self, request: Request, hypothesis: Hypothesis) -> Translation:
        source = self.source_vocabulary.surfaces(request.source)[: len(request.ids) - 1]
        pieces = zip(hypothesis.tokens, self.target_vocabulary.pieces(hypothesis.tokens), strict=True)
        target = tuple(UNKNOWN if token == UNK else piece for token, piece in pieces)
        decodable = UNK not in hypothesis.tokens
        return Translation(
            source=request.source,
            text=self.target_vocabulary.decode(list(hypothesis.tokens)) if decodable else text_of_pieces(target),
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

    def __repr__(self) -> str:
        return (
            f"Translator({self.name!r}, {type(self.model).__name__}, source={len(self.source_vocabulary)}, "
            f"target={len(self.target_vocabulary)}, device={str(self.device)!r})"
        )
