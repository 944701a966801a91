"""A translation: its text, its probability, and the attention of the model while it wrote the text."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from regard.tracing.tokens.token_reference import TokenReference
from regard.tracing.trace import Trace
from regard.tracing.watching.layer_states import StatesNotFoundError
from regard.translation.alignment import Alignment
from regard.translation.alignment_rule import AlignmentRule
from regard.translation.calibration import Calibration
from regard.translation.pieces import characters_without_piece
from regard.translation.training_texts import TrainingTexts
from regard.translation.usual import UsualLimits

DIGITS = 6
"""Numbers in the JSON record of a translation are rounded to this many decimals, about as many as float32 has."""

MOST_ROWS = 100
"""A notebook shows at most this many translations of a list."""


@runtime_checkable
class TranslatorInterface(Protocol):
    """The attributes and methods of a `Translator` that a `Translation` uses; `Translator` describes them."""

    @property
    def alignment_rule(self) -> AlignmentRule: ...
    @property
    def usual(self) -> UsualLimits | None: ...
    @property
    def training_texts(self) -> TrainingTexts | None: ...
    @property
    def calibration(self) -> Calibration | None: ...
    def align(self, translations: Sequence["Translation"]) -> list[Alignment]: ...
    def trace(self, translation: "Translation", keep: Collection[str] = ()) -> Trace: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Translation:
    """The translation of one text by a `Translator`.

    Attributes:
        source: the source text.
        text: the translation; empty for a source without words.
        score: the number by which the search ranks the translations of one source; higher is better. To compare
            translations of different sources, use `mean_log_probability` or `expected_chrf` instead.
        log_probability: log P(text | source) in nats: the sum over the tokens, EOS included, without penalties.
        source_ids, source_pieces: the ids and texts of the subword pieces that the model read, EOS last.
        target_ids, target_pieces: the ids and the pieces of the translation, without BOS and EOS.
        unknown: characters of the source that are in no piece of the source vocabulary.
        missing: names, numbers and addresses of the source that are missing in the translation: the model read
            placeholders for them (see `regard.text.placeholders`), but did not write these placeholders.
        left_out: the number of pieces that were cut from the end of a source that is too long.
        cut: whether the translation ended because it reached the largest number of pieces that was allowed, or is only
            the beginning of a given target.
        candidates: all translations that the search returned for this source, best first; the first has the text of
            this translation. Empty in a candidate, and in a translation that was only scored.
        parts: if the source was too long and was translated sentence by sentence, the translations of its sentences;
            otherwise empty.
        untranslated: whether the source was too long and could not be divided; `text` is then "⁇ " and the source.
        translator: the translator that made or scored the translation.
    """

    source: str
    text: str
    score: float
    log_probability: float
    source_ids: tuple[int, ...]
    source_pieces: tuple[str, ...]
    target_ids: tuple[int, ...]
    target_pieces: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    left_out: int = 0
    cut: bool = False
    candidates: tuple["Translation", ...] = ()
    parts: tuple["Translation", ...] = ()
    untranslated: bool = False
    translator: TranslatorInterface = field(repr=False)

    @property
    def mean_log_probability(self) -> float:
        """The mean of log P(token | source, tokens before), in nats, over all tokens and EOS (one EOS in each part)."""
        return self.log_probability / (len(self.target_ids) + self.n_parts)

    @property
    def expected_chrf(self) -> float | None:
        """An estimate of chrF, from 0 to 100: the mean chrF of dev translations that are as probable as this one.

        chrF is the likeness to a reference. The dev texts were translated by `Beam()`, the default search. None = not
        known, in one of these cases:

        - the translator has no calibration;
        - the source has no words, has unknown characters, or was not translated;
        - `unlike` has a remark: the source is unlike the training texts, or the translation is less probable than
          nearly all translations of dev texts.
        """
        calibration = self.translator.calibration
        if calibration is None or not self.n_source_pieces or self.unknown or self.unlike:
            return None
        return calibration.expected_chrf(self.mean_log_probability)

    @property
    def n_parts(self) -> int:
        """The number of texts that the model read: the number of `parts`, or 1 if there are none."""
        return len(self.parts) or 1

    @property
    def n_letters(self) -> int:
        """The number of characters of the source; spaces are not counted."""
        return len("".join(self.source.split()))

    @property
    def n_source_pieces(self) -> int:
        """The number of pieces that the model read, without EOS; 0 for a source without words, or if `untranslated`."""
        return len(self.source_ids) - 1

    @cached_property
    def unlike_source(self) -> tuple[str, ...]:
        """Remarks that the source is unlike the training texts; () = it is like them."""
        limits, training = self.translator.usual, self.translator.training_texts
        if not self.n_source_pieces:
            return ()
        remarks = list[str]()
        if training is not None:
            longest_part = max(part.n_source_pieces for part in self.parts or [self])
            remarks += training.source_remarks(self.source, longest_part)
        # The vocabulary has a piece for every character that is frequent in the training texts
        if rare_characters := characters_without_piece(self.source_pieces):
            remarks.append(f"contains characters rare in the training texts: {', '.join(rare_characters)}")
        if limits is not None and not remarks:  # a foreign script or rare characters explain many pieces
            remarks += limits.piece_count_remark(self.n_letters, self.n_source_pieces, self.n_parts)
        return tuple(remarks)

    @cached_property
    def unlike(self) -> tuple[str, ...]:
        """Remarks that the source is unlike the training texts, or that the translation is improbable; () = neither."""
        limits, training = self.translator.usual, self.translator.training_texts
        if not self.n_source_pieces:
            return ()
        remarks = list(self.unlike_source)
        if limits is not None:
            remarks += limits.probability_remark(self.mean_log_probability)
        if training is not None and not self.cut:
            # each part has an EOS
            remarks += training.ratio_remark(self.n_source_pieces + self.n_parts, len(self.target_ids) + self.n_parts)
        return tuple(remarks)

    @cached_property
    def alignment(self) -> Alignment:
        """The word alignment of source and translation; for many translations `Translator.align` is faster.

        It is computed at the first use, by one more forward pass of the model.
        """
        return self.translator.align([self])[0]

    @cached_property
    def trace(self) -> Trace:
        """The attention weights of every layer and head while the model reads source and translation."""
        return self.translator.trace(self)

    @cached_property
    def page_trace(self) -> Trace:
        """The trace for a web page, with the vectors of the tokens in each layer if the model is a `Transformer`."""
        try:
            return self.translator.trace(self, keep=("hidden",))
        except StatesNotFoundError:
            return self.trace

    def figure(self, path: str | Path) -> Path:
        """Write a picture of the alignment, with the translation as its title; `path` ends in .png, .svg or .pdf.

        Raises:
            InputError: the name has another ending, or the file cannot be written.
        """
        return self.alignment.figure(path, title=self.text, rule=self.translator.alignment_rule.caption)

    def html(self, path: str | Path, token: TokenReference | None = None, head: str | None = None) -> Path:
        """Write one web page with the trace and the alignment of each translation in `candidates`; it needs no network.

        Args:
            token, head: the query token and the head (such as "cross L3H1") that the page shows first. None = the page
                first shows the most salient weight, a large weight on a distant token.
        """
        from regard.views.page import write_page

        return write_page(self.page_trace, Path(path), token=token, head=head, alignment=self.page_record())

    def page_record(self) -> dict[str, Any]:
        """Return the translator's alignment rule, and the scores and the alignment of each candidate translation.

        All are JSON values for a web page. Without candidates, the translation itself is the only one.
        """
        rule, candidates = self.translator.alignment_rule, self.candidates or (self,)
        return {
            "rule": {
                "layer": rule.layer_among(len(self.page_trace.cross)),
                "head": rule.head,
                "step": rule.step,
                "agreement": rule.agreement,
                "reliable": rule.reliable,
                "by": rule.by,
            },
            "candidates": [
                candidate_record(candidate)
                | alignment_record(alignment)
                | {
                    "source_word_of": list(alignment.source_word_of),
                    "target_word_of": list(alignment.target_word_of),
                }
                for candidate, alignment in zip(candidates, self.translator.align(candidates), strict=True)
            ],
        }

    def record(self, alignment: Alignment | None = None) -> dict[str, Any]:
        """Return the translation as a dict of values that `json.dumps` accepts.

        Args:
            alignment: the word alignment in the record; None = the property `alignment`.
        """
        return {
            "source": self.source,
            **confidence_record(self),
            **remark_record(self),
            **alignment_record(alignment or self.alignment),
            "candidates": [confidence_record(candidate) for candidate in self.candidates],
        }

    def _repr_html_(self) -> str:
        """Return an HTML frame that contains the page of `html`, for a notebook."""
        from regard.views.page.notebook import notebook_frame

        return notebook_frame(self.page_trace, self.page_record())

    def __repr__(self) -> str:
        return f"Translation({self.source!r} → {self.text!r}, log_probability={self.log_probability:.3f})"


class Translations(list[Translation]):
    """A list of translations; a notebook shows the first `MOST_ROWS` of them as a table."""

    def _repr_html_(self) -> str:
        rows = [["source", "translation", "expected chrF", "remarks"]]
        for translation in self[:MOST_ROWS]:
            chrf = rounded_chrf(translation)
            remarks = list(translation.unlike)
            if translation.missing:
                remarks.insert(0, f"the translation lacks {', '.join(translation.missing)}")
            rows.append([translation.source, translation.text, "-" if chrf is None else str(chrf), "; ".join(remarks)])
        if len(self) > MOST_ROWS:
            rows.append([f"… and {len(self) - MOST_ROWS:,} more", "", "", ""])
        cells = [[f'<td dir="auto" style="text-align: start">{escape(text)}</td>' for text in row] for row in rows]
        return f"<table>{''.join('<tr>' + ''.join(row) + '</tr>' for row in cells)}</table>"


def candidate_record(translation: Translation) -> dict[str, Any]:
    return {
        "text": translation.text,
        "score": round(translation.score, DIGITS),
        "log_probability": round(translation.log_probability, DIGITS),
    }


def confidence_record(translation: Translation) -> dict[str, Any]:
    return candidate_record(translation) | {
        "mean_log_probability": round(translation.mean_log_probability, DIGITS),
        "expected_chrf": rounded_chrf(translation),
    }


def remark_record(translation: Translation) -> dict[str, Any]:
    return {
        "unknown": list(translation.unknown),
        "missing": list(translation.missing),
        "parts": [part.text for part in translation.parts],
        "untranslated": translation.untranslated,
        "unlike": list(translation.unlike),
    }


def rounded_chrf(translation: Translation) -> float | None:
    expected = translation.expected_chrf
    return None if expected is None else round(expected, 1)


def alignment_record(alignment: Alignment) -> dict[str, Any]:
    """Return a word alignment as JSON values, with weights between words and, under "pieces", between pieces."""
    return {
        "source_words": list(alignment.source_words),
        "target_words": list(alignment.target_words),
        "alignment": [list(pair) for pair in sorted(alignment.pairs)],
        "weights": rounded(alignment.weights.tolist()),
        "pieces": {
            "source": list(alignment.source_pieces),
            "target": list(alignment.target_pieces),
            "weights": rounded(alignment.piece_weights.tolist()),
        },
    }


def rounded(rows: list[list[float]]) -> list[list[float]]:
    return [[round(weight, DIGITS) for weight in row] for row in rows]
