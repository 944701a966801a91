"""A translator: a model with its two vocabularies, which turns texts into translations."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from regard.attention.representation import type_name
from regard.device import device_named
from regard.errors import InputError
from regard.text.placeholders import Placeholders, with_items, with_signs
from regard.text.vocabulary import BOS, EOS, UNK, Vocabulary
from regard.tracing.trace import Trace
from regard.transformer.int8 import Int8Transformer
from regard.translation.alignment import Alignment
from regard.translation.alignment_choice import choose_rule, erasure_weights
from regard.translation.alignment_rule import AlignmentRule
from regard.translation.calibration import Calibration, sentence_chrf
from regard.translation.forced_decoding import piece_weights, token_log_probabilities, word_alignment
from regard.translation.length_batches import BATCH_TOKENS, length_batches
from regard.translation.long_texts import join_alignments, join_translations, language_code, sentences_that_fit
from regard.translation.marian_folder import read_any_translator
from regard.translation.model_protocol import TranslatingModel, evaluation_mode
from regard.translation.pieces import UNKNOWN, text_of_pieces
from regard.translation.request import Request, check_lengths, check_pairs, check_texts, prefix_for_each, read_requests
from regard.translation.search.beam import Beam
from regard.translation.search.interface import Hypothesis, Search, SourceBatch
from regard.translation.traced_translation import trace_translation
from regard.translation.training_texts import UNKNOWN_LONGEST, TrainingTexts
from regard.translation.translation import Translation, Translations
from regard.translation.translator_folder import write_translator
from regard.translation.usual import UsualLimits

EMPTY_TEXT = Hypothesis(tokens=(), log_probability=0.0, score=0.0)
"""The hypothesis for a text without words."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Translator:
    """A model with the vocabularies of its two languages.

    Attributes:
        model: a `Transformer`, a `Recurrent`, or any other `TranslatingModel`.
        name: the translator's name in traces.
        device: the device of the model.
        extra: values that `save` stores with the translator, such as the settings of its training.
        alignment_rule: the rule by which `align` aligns words; `regard train` chooses the rule with the dev pairs.
        placeholders: the rule by which signs replace names, numbers and addresses while a text is translated; None =
            nothing is replaced.
    """

    model: TranslatingModel
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    name: str = "translator"
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    extra: Mapping[str, Any] = field(default_factory=dict)
    alignment_rule: AlignmentRule = field(default_factory=AlignmentRule)
    placeholders: Placeholders | None = None

    @classmethod
    def load(cls, folder: str | Path, device: str | torch.device | None = None, *, int8: bool = False) -> "Translator":
        """Load a translator from a folder that `regard train` or `save` wrote, or a Marian model of transformers.

        Args:
            device: such as "cpu" or "cuda:1"; None = a GPU if there is one, else the CPU.
            int8: translate with 8-bit integers as weights (see `Int8Transformer`): faster for models that do not fit
                into the CPU cache, with slightly different scores. `score`, `align` and `trace` compute in float32.

        Raises:
            InputError: there is no translator in the folder, or it is damaged, or the device does not exist, or int8
                does not support the model or the device.
        """
        chosen_device = device_named(device)
        contents = read_any_translator(Path(folder), chosen_device)
        return cls(
            model=Int8Transformer(contents.model) if int8 else contents.model,
            source_vocabulary=contents.source_vocabulary,
            target_vocabulary=contents.target_vocabulary,
            name=Path(folder).resolve().name,
            device=chosen_device,
            extra=contents.extra,
            alignment_rule=contents.alignment_rule,
            placeholders=Placeholders.of(contents.source_vocabulary, contents.target_vocabulary),
        )

    def save(self, folder: str | Path) -> Path:
        """Write the translator into a folder, which is created if it does not exist; return the folder.

        Raises:
            TypeError: the model is neither a `Transformer` nor a `Recurrent`.
            InputError: the folder cannot be written.
        """
        source, target = self.source_vocabulary, self.target_vocabulary
        return write_translator(Path(folder), self.model, source, target, dict(self.extra), self.alignment_rule)

    def translate(
        self,
        texts: Sequence[str],
        *,
        search: Search = Beam(),  # noqa: B008 (frozen)
        prefix: str | Sequence[str] | None = None,
        truncate: bool = False,
        split: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        first: int = 1,
    ) -> list[Translation]:
        """Translate each text independently of the others; return the translations in the order of the texts.

        Texts of similar length share a batch, for speed. A text without words becomes "", with probability 1.

        Args:
            texts: a list of texts, usually of one sentence each.
            search: the search algorithm: `Beam`, `Greedy`, `Sample` or `MinimumRisk`.
            prefix: the text that every translation must begin with, or a list with one such text for each source. A
                prefix may end within a word.
            truncate: translate only the beginning of a text that is too long, instead of raising InputError.
            split: translate a long text sentence by sentence, instead of raising InputError. A text is long if it has
                more pieces than the model can read or than the training texts have (100 if not known). If a clause is
                too long for the model, the source is returned after the mark ⁇, with `untranslated` True.
            batch_tokens: the largest number of source tokens in a batch, padding counted.
            first: the line number of the first text. Messages name line numbers, and `Sample` derives its random
                numbers from them.

        Raises:
            InputError: a text or a prefix is longer than the model allows, or a prefix has characters without a piece
                in the target vocabulary; the message has the line number.
            TypeError: `texts` is a single text, a text is not a str, or `search` is not a `Search` object.
            ValueError: the number of prefixes is not the number of texts.
        """
        if isinstance(search, type) or not isinstance(search, Search):
            raise TypeError(f"search is {type_name(search)}; it takes an object such as Beam().")
        check_texts(texts, "the text", first)
        prefixes = prefix_for_each(prefix, texts, first)
        requests = self._requests(texts, prefixes)
        for request in requests:
            if UNK in request.prefix:
                unknown = ", ".join(self.target_vocabulary.unknown(prefixes[request.index]))
                raise InputError(
                    f"the prefix of line {first + request.index} has characters that the translator cannot write: "
                    f"{unknown}; leave them out."
                )
        check_lengths(requests, self._most_pieces, first, may_be_long=truncate or split)
        translations = dict[int, Translation]()
        longest_undivided = UNKNOWN_LONGEST if self.training_texts is None else self.training_texts.longest
        for request in requests:
            if split and (request.left_out or len(request.ids) - 1 > longest_undivided):
                text_prefix, line = prefixes[request.index], first + request.index
                if joined := self._translate_sentences(request.source, text_prefix, search, batch_tokens, line):
                    translations[request.index] = joined
            elif request.empty:
                translations[request.index] = self._translation(request, [EMPTY_TEXT])
        remaining = [request for request in requests if request.index not in translations]
        with evaluation_mode(self.model):
            for n_prefix in sorted({len(request.prefix) for request in remaining}):  # one length in a `SourceBatch`
                same_prefix_length = [request for request in remaining if len(request.prefix) == n_prefix]
                for indices in length_batches([len(request.ids) for request in same_prefix_length], batch_tokens):
                    batch = [same_prefix_length[index] for index in indices]
                    for request, hypotheses in zip(batch, self._search(search, batch, first), strict=True):
                        translations[request.index] = self._translation(request, hypotheses)
        return Translations(translations[index] for index in range(len(texts)))

    def score(
        self,
        texts: Sequence[str],
        targets: Sequence[str],
        *,
        truncate: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        first: int = 1,
    ) -> list[Translation]:
        """Compute the log-probability that the model assigns to a target text, given its source text.

        Returns a `Translation` for each pair; its `score` and its `log_probability` are log P(target | source).

        Args:
            texts: the source texts.
            targets: one target text for each source text, such as a translation by a human.
            truncate: read only the beginning of a source or target that is too long, instead of raising InputError.
            batch_tokens: the largest number of source tokens, and of target tokens, in a batch, padding counted.
            first: the line number of the first text, for messages.

        Raises:
            InputError: a text or a target is longer than the model allows; the message has the line number.
            TypeError: a text or a target is not a str.
            ValueError: the number of targets is not the number of texts.
        """
        check_pairs(texts, targets, first)
        requests = self._requests(texts, targets)
        check_lengths(requests, self._most_pieces, first, may_be_long=truncate, are_targets=True)
        translations = list[Translation]()
        for request, target in zip(requests, targets, strict=True):
            surfaces = self.target_vocabulary.surfaces(with_signs(target, request.signs))  # with unknown characters
            pieces = request.pieces_with_items(surfaces)
            ids = request.prefix[: self._most_pieces]  # here the prefix is the whole target
            given = Hypothesis(tokens=ids, log_probability=0.0, score=0.0, cut=len(ids) < len(request.prefix))
            translations.append(replace(self._candidate(request, given), text=target, target_pieces=pieces[: len(ids)]))
        log_probabilities = token_log_probabilities(self.model, translations, self.device, batch_tokens)
        totals = [float(piece_scores.sum()) for piece_scores in log_probabilities]
        scored = zip(translations, totals, strict=True)
        return Translations(replace(translation, score=total, log_probability=total) for translation, total in scored)

    def piece_log_probabilities(
        self, translations: Sequence[Translation], batch_tokens: int = BATCH_TOKENS
    ) -> list[list[float]]:
        """Return log P(token | source, tokens before) of each target token of each translation, EOS last, in nats.

        Args:
            translations: results of `translate` or `score` of this translator.
            batch_tokens: the largest number of source tokens, and of target tokens, in a batch, padding counted.
        """
        log_probabilities = token_log_probabilities(self.model, translations, self.device, batch_tokens)
        return [piece_scores.tolist() for piece_scores in log_probabilities]

    def align(
        self, translations: Sequence[Translation], rule: AlignmentRule | None = None, batch_tokens: int = BATCH_TOKENS
    ) -> list[Alignment]:
        """Return the word alignment of each translation.

        The words are aligned by the attention weights with which the model reads the source and the whole translation.
        With rule.by="erasure", each source word is left out in turn: a target piece that then becomes less probable is
        aligned with this source word.

        Args:
            translations: results of `translate` or `score` of this translator.
            rule: how to align the words; None = the translator's `alignment_rule`.
            batch_tokens: the largest number of source tokens, and of target tokens, in a batch, padding counted.

        Raises:
            ValueError: the layer or the head of the rule does not exist.
        """
        # The texts that the model read separately
        parts = [part for translation in translations for part in translation.parts or [translation]]
        rule = rule or self.alignment_rule
        if rule.by == "erasure":
            weights = erasure_weights(self.model, parts, self.device)
        else:
            weights = piece_weights(self.model, parts, rule, self.device, batch_tokens)
        (end,) = self.target_vocabulary.pieces([EOS])
        part_alignments = iter([word_alignment(part, rows, end) for part, rows in zip(parts, weights, strict=True)])
        alignments = list[Alignment]()
        for translation in translations:
            own = [next(part_alignments) for _ in translation.parts or [translation]]
            whole = join_alignments(translation.source, translation.text, own) if translation.parts else own[0]
            alignments.append(whole)
        return alignments

    def with_chosen_rule(self, texts: Sequence[str], targets: Sequence[str]) -> "Translator":
        """Return this translator with the alignment rule that is best for its model on these text pairs.

        A target piece needs the source word whose removal lowers the piece's probability most. The best rule aligns the
        most pieces with the words that they need.

        Args:
            texts: source texts; the first 100 that have 2 to 24 words are used.
            targets: one target text for each source text.
        """
        scored = self.score(texts, targets, truncate=True)
        return replace(self, alignment_rule=choose_rule(self.model, scored, self.device))

    def calibrated(self, texts: Sequence[str], targets: Sequence[str]) -> "Translator":
        """Return this translator with a calibration of its scores, and with the usual lengths and characters of texts.

        The calibration estimates the chrF of a translation from its mean log-probability. A text or a translation
        beyond the limits (`UsualLimits`) is unusual. Calibration and limits are measured on translations by `Beam()`.
        The new translator has both in `extra`, which `save` stores.

        Args:
            texts: source texts that the model was not trained on; with fewer than 20 there is no calibration.
            targets: one reference translation for each source text.
        """
        check_pairs(texts, targets)
        translations = self.translate(texts, truncate=True)
        letters = [translation.n_letters for translation in translations]
        pieces = [translation.n_source_pieces for translation in translations]
        scores = [translation.mean_log_probability for translation in translations]
        chrf = sentence_chrf([translation.text for translation in translations], targets)
        measured = {"usual": UsualLimits.of(letters, pieces, scores), "calibration": Calibration.of(scores, chrf)}
        stored = {name: None if value is None else asdict(value) for name, value in measured.items()}
        return replace(self, extra={**self.extra, **stored})

    def trace(self, translation: Translation, keep: Collection[str] = ()) -> Trace:
        """Return the attention weights of all layers and heads while the model reads source and translation.

        Args:
            keep: ("hidden",) = also record the vectors of the tokens before, inside and after each layer, which
                `Trace.contributions` and `Trace.movement` need.

        Raises:
            InputError: the text was translated in parts; or `keep` is given, and the model is not a Transformer.
        """
        if not set(keep) <= {"hidden"}:
            raise InputError(f"keep={keep!r}: besides patterns, a trace can only keep=('hidden',).")
        if translation.parts:
            raise InputError(
                f"the text was too long and was translated in {len(translation.parts)} parts, each with a trace of its "
                "own: translation.parts[0].trace."
            )
        (begin,) = self.target_vocabulary.pieces([BOS])
        return trace_translation(
            self.model, translation, self.device, model_name=self.name, begin_piece=begin, keep_hidden=bool(keep)
        )

    @property
    def usual(self) -> UsualLimits | None:
        """The limits beyond which a source or translation is unusual; None = the translator has no limits."""
        return UsualLimits.stored_in(self.extra)

    @property
    def training_texts(self) -> TrainingTexts | None:
        """The lengths and scripts of the texts that the translator was trained on; None = not known."""
        return TrainingTexts.stored_in(self.extra)

    @property
    def calibration(self) -> Calibration | None:
        """The function from the mean log-probability of a translation's pieces to its expected chrF; None = unknown."""
        return Calibration.stored_in(self.extra)

    @property
    def _most_pieces(self) -> int:
        return self.model.config.max_tokens - 1  # one token is EOS in the source, and BOS in the target

    def _requests(self, texts: Sequence[str], targets: Sequence[str]) -> list[Request]:
        source, target = self.source_vocabulary, self.target_vocabulary
        return read_requests(texts, targets, source, target, self.placeholders, self._most_pieces)

    def _search(self, search: Search, batch: Sequence[Request], first: int) -> list[tuple[Hypothesis, ...]]:
        """Return the hypotheses for each text of a batch; `first` is the line number of the first of all texts."""
        sources = SourceBatch.of(
            self.model,
            [request.ids for request in batch],
            [request.prefix for request in batch],
            numbers=[first + request.index for request in batch],
            device=self.device,
        )
        required = tuple(request.sign_ids for request in batch)
        return search.run(self.model, replace(sources, text_of=self.target_vocabulary.decode, required=required))

    def _translate_sentences(
        self, text: str, prefix: str, search: Search, batch_tokens: int, line: int
    ) -> Translation | None:
        """Translate a text sentence by sentence, or clause by clause where a sentence is too long for the model.

        If a clause is too long, the result is the mark ⁇ and the text. None = the text is one sentence that fits.

        Args:
            prefix: the beginning of the first sentence's translation.
            line: the line number of the text; its parts have line, line + 1, …, so that `Sample` draws differently.
        """
        code = language_code(text, self.source_vocabulary)
        parts = sentences_that_fit(text, lambda part: self._requests([part], targets=[""])[0].left_out == 0, code)
        if parts is None:
            (empty,) = self.translate([""])
            return replace(empty, source=text, text=f"{UNKNOWN} {text}", untranslated=True)
        if len(parts) == 1:
            return None
        prefixes = [prefix, *[""] * (len(parts) - 1)]
        translations = self.translate(parts, search=search, prefix=prefixes, batch_tokens=batch_tokens, first=line)
        return join_translations(text, translations)

    def _translation(self, request: Request, hypotheses: Sequence[Hypothesis]) -> Translation:
        """Return the first hypothesis as a translation whose candidates are all hypotheses."""
        candidates = tuple(self._candidate(request, hypothesis) for hypothesis in hypotheses)
        return replace(candidates[0], candidates=candidates)

    def _candidate(self, request: Request, hypothesis: Hypothesis) -> Translation:
        source_pieces = self.source_vocabulary.pieces(request.ids)
        if request.unknown:  # an unknown piece is shown as its characters
            surfaces = self.source_vocabulary.surfaces(request.text_with_signs)
            source_pieces[:-1] = surfaces[: len(request.ids) - 1]  # EOS has no surface; a long text was cut off
        signed_pieces = self.target_vocabulary.pieces(hypothesis.tokens)
        pieces = zip(hypothesis.tokens, signed_pieces, strict=True)
        target_pieces = request.pieces_with_items([UNKNOWN if token == UNK else piece for token, piece in pieces])
        if UNK in hypothesis.tokens:
            text = text_of_pieces(target_pieces)
        else:
            text = with_items(self.target_vocabulary.decode(list(hypothesis.tokens)), request.signs).strip()
        return Translation(
            source=request.source,
            text=text,
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            source_ids=request.ids,
            source_pieces=request.pieces_with_items(source_pieces),
            target_ids=hypothesis.tokens,
            target_pieces=target_pieces,
            unknown=request.unknown,
            missing=tuple(item for item, sign in (request.signs or {}).items() if sign not in signed_pieces),
            left_out=request.left_out,
            cut=hypothesis.cut,
            translator=self,
        )

    def __repr__(self) -> str:
        return (
            f"Translator({self.name!r}, {type(self.model).__name__}, source={len(self.source_vocabulary)}, "
            f"target={len(self.target_vocabulary)}, device={str(self.device)!r})"
        )
