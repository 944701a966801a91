"""Scoring translations against references: BLEU, chrF, TER and exact matches, by sentence length and line by line.

sacreBLEU computes the scores; each score comes with sacreBLEU's signature, a text that states exactly how it was
computed. Two systems that translated the same lines are compared by paired bootstrap resampling.

Source: Post 2018 (signatures); Papineni et al. 2002 (BLEU); Popović 2015 (chrF); Snover et al. 2006 (TER); Koehn 2004
(paired bootstrap).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from regard.errors import InputError, counted, import_extra, nearest
from regard.evaluation.comet import N_SAMPLES, comet_score
from regard.evaluation.records import Comparison, Evaluation, LengthGroup, MetricScore, SentenceScore

LENGTH_GROUPS = ((1, 5), (6, 10), (11, 20), (21, 40), (41, 80), (81, None))
"""The smallest and the largest length in each group of lines; None = no largest length.

The length of a line is the number of words in its first reference, as BLEU's tokenizer counts them (or of characters).
"""

WORDS_FOR_WORD_BLEU = 5
"""The smallest mean number of words per reference line for which BLEU counts words; below it, BLEU counts characters.

BLEU needs sequences of four words, and lines in scripts without spaces have few words.
"""

UNSPACED = {"zh", "ja-mecab"}
"""BLEU's tokenizers for languages written without spaces. If BLEU uses one, TER counts characters in place of words."""

UNSPACED_LETTER = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
"""A Chinese character or a kana. BLEU's tokenizer "char" serves texts of such letters, and short lines of others."""

MAX_COMPARED = 30_000
"""The most lines for which two systems are compared: for this, sacreBLEU needs about 70 kB of memory per line."""


def evaluate(
    hypotheses: Sequence[str],
    *references: Sequence[str],
    source: Sequence[str] | None = None,
    against: Sequence[str] | None = None,
    tokenize: str = "13a",
    lowercase: bool = False,
    comet: str | None = None,
) -> Evaluation:
    """Score translations against one or more references of each line.

    Args:
        hypotheses: the translations to score, one per line.
        references: reference translations of the same lines; several sequences if lines have several references.
        source: the source sentences, copied into the result; only COMET reads them.
        against: another system's translations of the same lines, to compare with; None = there is no other system.
        tokenize: the name of sacreBLEU's tokenizer for BLEU.
        lowercase: ignore case in BLEU, chrF and exact matches; TER always ignores it.
        comet: the checkpoint file of a COMET model, or the name of a model that the package unbabel-comet downloads;
            None = no COMET.

    >>> evaluation = evaluate(["the cat sat", "a dog"], ["the cat sat", "the dog"])
    >>> evaluation.exact, evaluation.sentences[0].hypothesis
    (50.0, 'a dog')
    """
    texts = {"hypothesis": hypotheses}
    for number, reference in enumerate(references, 1):
        texts[f"reference {number}"] = reference
    if source is not None:
        texts["source"] = source
    if against is not None:
        texts["against"] = against
    check_lines(texts)
    if not references:
        raise InputError("there is no reference to compare with; give at least one.")
    if against is not None and len(against) > MAX_COMPARED:
        raise InputError(
            f"{len(against):,} lines are more than the {MAX_COMPARED:,} lines on which two systems can be compared; "
            "give a part of the lines."
        )
    if comet is not None and source is None:
        raise InputError("COMET reads the source sentences too, and there are none; give them with --source (source=).")
    metrics = build_metrics(tokenize, lowercase, references)
    matches = exact_matches(hypotheses, references, lowercase)
    scores = metric_scores(metrics, hypotheses, references, against)
    if comet and source:
        scores += (comet_score(comet, source, hypotheses, references[0], against),)
    return Evaluation(
        n_lines=len(hypotheses),
        scores=scores,
        exact=percent(matches),
        other_exact=None if against is None else percent(exact_matches(against, references, lowercase)),
        by_length=scores_by_length(metrics, hypotheses, references, matches),
        sentences=sentence_scores(metrics["chrF"], hypotheses, references, matches, source, against),
    )


def bleu_tokenizer(references: Sequence[str]) -> str:
    """Return the sacreBLEU tokenizer for these references: "13a" (words), or "char" (characters) if lines are short.

    >>> bleu_tokenizer(["the cat sat on it"]), bleu_tokenizer(["사만 이천칠"])
    ('13a', 'char')
    """
    n_words = sum(len(line.split()) for line in references)
    return "13a" if n_words >= WORDS_FOR_WORD_BLEU * len(references) else "char"


def check_lines(texts: Mapping[str, Sequence[str]]) -> None:
    first_name = next(iter(texts))
    n_lines = len(texts[first_name])
    if n_lines == 0:
        raise InputError(f"{first_name} has no lines; give at least one.")
    for name, lines in texts.items():
        if len(lines) != n_lines:
            raise InputError(
                f"{first_name} has {counted(n_lines, 'line')} and {name} has {counted(len(lines), 'line')}; "
                "line n of each must belong to the same sentence."
            )


def is_tokenized(lines: Sequence[str]) -> bool:
    """Return whether more than half of the lines end with a space and a full stop, a sign of tokenized text.

    >>> is_tokenized(["it has a venom ."]), is_tokenized(["It has a venom."])
    (True, False)
    """
    return 2 * sum(line.endswith(" .") for line in lines) > len(lines)


def is_unspaced(lines: Sequence[str]) -> bool:
    """Return whether most letters of the lines are Chinese characters or kana.

    >>> is_unspaced(["今日は Tom と"]), is_unspaced(["사만 이천칠"])
    (True, False)
    """
    text = "".join(lines)
    return 2 * len(UNSPACED_LETTER.findall(text)) > sum(map(str.isalpha, text))


def build_metrics(tokenize: str, lowercase: bool, references: Sequence[Sequence[str]]) -> dict[str, Any]:
    metrics = import_extra("sacrebleu.metrics", "translation")
    names = list(metrics.BLEU.TOKENIZERS)
    if tokenize not in names:
        raise InputError(
            f"no tokenizer {tokenize!r}; nearest: {', '.join(nearest(tokenize, names))}; there are {', '.join(names)}."
        )
    try:
        bleu = metrics.BLEU(tokenize=tokenize, lowercase=lowercase, force=True)  # force: no warning on tokenized text
    except (ImportError, OSError, RuntimeError) as error:  # the tokenizer's dictionary or model is missing
        raise InputError(f"the tokenizer {tokenize} cannot run here: {' '.join(str(error).split())}") from error
    by_characters = tokenize in UNSPACED or (tokenize == "char" and is_unspaced(references[0]))
    return {
        "BLEU": bleu,
        "chrF": metrics.CHRF(lowercase=lowercase),
        "TER": metrics.TER(normalized=by_characters, asian_support=by_characters),
    }


def metric_scores(
    metrics: dict[str, Any],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    against: Sequence[str] | None,
) -> tuple[MetricScore, ...]:
    """Score `hypotheses` by every metric; each sequence in `references` has a reference for every line."""
    if against is not None:
        return paired_bootstrap(metrics, hypotheses, references, against)
    scores = []
    for metric in metrics.values():
        score = metric.corpus_score(hypotheses, references)
        signature = f"{score.name}|{metric.get_signature().format()}"
        scores.append(MetricScore(name=score.name, value=score.score, signature=signature))
    return tuple(scores)


def paired_bootstrap(
    metrics: dict[str, Any], hypotheses: Sequence[str], references: Sequence[Sequence[str]], against: Sequence[str]
) -> tuple[MetricScore, ...]:
    significance = import_extra("sacrebleu.significance", "translation")
    systems = [("against", against), ("hypotheses", hypotheses)]
    test = significance.PairedTest(systems, metrics, references, test_type="bs", n_samples=N_SAMPLES)
    signatures, results = test()
    scores = []
    for name, settings in signatures.items():
        other, own = results[name]  # in the order of `systems`: `against`, then `hypotheses`
        comparison = Comparison(
            other=float(other.score), interval=float(own.ci), other_interval=float(other.ci), p_value=float(own.p_value)
        )
        scores.append(
            MetricScore(
                name=name, value=float(own.score), signature=f"{name}|{settings.format()}", comparison=comparison
            )
        )
    return tuple(scores)


def exact_matches(hypotheses: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool) -> list[bool]:
    def normalised(text: str) -> str:
        return text.strip().lower() if lowercase else text.strip()

    lines = zip(hypotheses, *references, strict=True)
    return [normalised(hypothesis) in map(normalised, its_references) for hypothesis, *its_references in lines]


def percent(matches: Sequence[bool]) -> float:
    return 100 * sum(matches) / len(matches)


def scores_by_length(
    metrics: dict[str, Any],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    matches: Sequence[bool],
) -> tuple[LengthGroup, ...]:
    """Score each group of lines of similar length; `LENGTH_GROUPS` says what counts as the length."""
    tokenizer = metrics["BLEU"].tokenizer
    # an empty reference counts as one word, because the group of the shortest lines begins at one word
    lengths = [max(len(tokenizer(line).split()), 1) for line in references[0]]
    groups = []
    for least, most in LENGTH_GROUPS:
        rows = [i for i, length in enumerate(lengths) if least <= length and (most is None or length <= most)]
        if not rows:
            continue
        group = [hypotheses[i] for i in rows]
        group_references = [[texts[i] for i in rows] for texts in references]
        bleu = metrics["BLEU"].corpus_score(group, group_references)
        groups.append(
            LengthGroup(
                least=least,
                most=most,
                n_lines=len(rows),
                bleu=bleu.score if bleu.totals[-1] else None,  # no sequence of four words: no BLEU
                chrf=metrics["chrF"].corpus_score(group, group_references).score,
                exact=percent([matches[i] for i in rows]),
            )
        )
    return tuple(groups)


def sentence_scores(
    chrf: Any,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    matches: Sequence[bool],
    source: Sequence[str] | None,
    against: Sequence[str] | None,
) -> tuple[SentenceScore, ...]:
    """Return the score of each line, sorted by chrF, the lowest first."""
    sentences = []
    for i, (hypothesis, *its_references) in enumerate(zip(hypotheses, *references, strict=True)):
        sentences.append(
            SentenceScore(
                line=i + 1,
                # 100 also if hypothesis and reference are empty, where sacreBLEU returns 0
                chrf=100.0 if hypothesis in its_references else chrf.sentence_score(hypothesis, its_references).score,
                exact=matches[i],
                hypothesis=hypothesis,
                references=tuple(its_references),
                source=None if source is None else source[i],
                other=None if against is None else against[i],
            )
        )
    return tuple(sorted(sentences, key=lambda sentence: sentence.chrf))
