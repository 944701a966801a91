"""Evaluation of translations against references: BLEU, chrF, TER and exact matches, by length and line by line.

The scores are sacreBLEU's, and each has the signature that says exactly what was computed. A second system's
translations of the same lines are compared by paired bootstrap resampling.

Source: Post 2018 (signatures); Papineni et al. 2002 (BLEU); Popović 2015 (chrF); Snover et al. 2006 (TER); Koehn 2004
(paired bootstrap).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from regard.errors import InputError, counted, import_extra, nearest
from regard.evaluation.records import Comparison, Evaluation, LengthGroup, MetricScore, SentenceScore

LENGTHS = (1, 6, 11, 21, 41, 81)
"""The smallest length of each row of the table by length, in words of the reference."""

ASIAN = {"zh", "ja-mecab"}
"""BLEU's tokenizers of languages without spaces; TER then counts letters instead of words."""

N_SAMPLES = 1000
"""Samples of a paired bootstrap."""

MAX_COMPARED = 30_000
"""Most lines of a paired bootstrap; sacreBLEU holds all samples' statistics at once, about 70 kB a line."""


def evaluate(
    hypotheses: Sequence[str],
    *references: Sequence[str],
    source: Sequence[str] | None = None,
    against: Sequence[str] | None = None,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Evaluation:
    """Measure translations by one or several references, line by line.

    Args:
        source: the source sentences, to be shown beside the translations.
        against: a second system's translations of the same lines.
        tokenize: the tokenizer of BLEU; one of sacreBLEU's.
        lowercase: ignore case in BLEU, chrF and exact matches; TER always does.

    Raises:
        InputError: the texts have unequal numbers of lines, or no line or no reference, or the tokenizer is unknown or
            cannot run here.

    >>> evaluation = evaluate(["the cat sat", "a dog"], ["the cat sat", "the dog"])
    >>> evaluation.exact, evaluation.sentences[0].hypothesis
    (50.0, 'a dog')
    """
    texts = {"hypothesis": hypotheses}
    texts |= {f"reference {number}": text for number, text in enumerate(references, 1)}
    texts |= {name: text for name, text in {"source": source, "against": against}.items() if text is not None}
    check_lines(texts)
    if not references:
        raise InputError("there is no reference to measure by; give at least one.")
    if against is not None and len(against) > MAX_COMPARED:
        raise InputError(
            f"{len(against):,} lines are more than the {MAX_COMPARED:,} that a second system is compared on; "
            "compare them on a part of the lines."
        )
    metrics = build_metrics(tokenize, lowercase)
    matches = exact_matches(hypotheses, references, lowercase)
    return Evaluation(
        n_lines=len(hypotheses),
        scores=metric_scores(metrics, hypotheses, references, against),
        exact=percent(matches),
        other_exact=None if against is None else percent(exact_matches(against, references, lowercase)),
        by_length=scores_by_length(metrics, hypotheses, references, matches),
        sentences=worst_first(metrics["chrF"], hypotheses, references, matches, source, against),
    )


def check_lines(texts: Mapping[str, Sequence[str]]) -> None:
    """Check that texts have equal numbers of lines.

    Args:
        texts: the lines of each text, by name.

    Raises:
        InputError: the first text has no lines, or another has more or fewer lines.
    """
    (first, lines), *others = texts.items()
    if not lines:
        raise InputError(f"{first} has no lines; give at least one.")
    for name, text in others:
        if len(text) != len(lines):
            raise InputError(
                f"{first} has {counted(len(lines), 'line')} and {name} has {counted(len(text), 'line')}; "
                "line by line they must be the same sentences."
            )


def is_tokenized(lines: Sequence[str]) -> bool:
    """Return whether most lines end with a space and a full stop, a sign of tokenized text.

    >>> is_tokenized(["it has a venom ."]), is_tokenized(["It has a venom."])
    (True, False)
    """
    return 2 * sum(line.endswith(" .") for line in lines) > len(lines)


def build_metrics(tokenize: str, lowercase: bool) -> dict[str, Any]:
    """Build sacreBLEU's metrics with its default settings, except for the tokenizer and the case of letters."""
    metrics = import_extra("sacrebleu.metrics", "translation")
    valid = list(metrics.BLEU.TOKENIZERS)
    if tokenize not in valid:
        raise InputError(
            f"no tokenizer {tokenize!r}; nearest: {', '.join(nearest(tokenize, valid))}; there are {', '.join(valid)}."
        )
    try:
        bleu = metrics.BLEU(tokenize=tokenize, lowercase=lowercase, force=True)  # the command line warns of such text
    except (ImportError, OSError, RuntimeError) as error:  # a dictionary or a model is missing
        raise InputError(f"the tokenizer {tokenize} cannot run here: {' '.join(str(error).split())}") from error
    letters = tokenize in ASIAN
    return {
        "BLEU": bleu,
        "chrF": metrics.CHRF(lowercase=lowercase),
        "TER": metrics.TER(normalized=letters, asian_support=letters),
    }


def metric_scores(
    metrics: dict[str, Any],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    against: Sequence[str] | None,
) -> tuple[MetricScore, ...]:
    """Compute every metric over all lines, compared with the second system if there is one."""
    if against is not None:
        return paired_bootstrap(metrics, hypotheses, references, against)
    found = []
    for metric in metrics.values():
        score = metric.corpus_score(hypotheses, references)
        found.append(
            MetricScore(name=score.name, value=score.score, signature=signature(score.name, metric.get_signature()))
        )
    return tuple(found)


def paired_bootstrap(
    metrics: dict[str, Any], hypotheses: Sequence[str], references: Sequence[Sequence[str]], against: Sequence[str]
) -> tuple[MetricScore, ...]:
    """Compute every metric and compare it by paired bootstrap; the second system is the baseline."""
    significance = import_extra("sacrebleu.significance", "translation")
    systems = [("against", against), ("hypotheses", hypotheses)]
    test = significance.PairedTest(systems, metrics, references, test_type="bs", n_samples=N_SAMPLES)
    signatures, results = test()
    found = []
    for name, settings in signatures.items():
        other, own = results[name]
        comparison = Comparison(
            other=float(other.score),
            interval=float(own.ci),
            other_interval=float(other.ci),
            p_value=float(own.p_value),
        )
        found.append(
            MetricScore(name=name, value=float(own.score), signature=signature(name, settings), comparison=comparison)
        )
    return tuple(found)


def signature(name: str, settings: Any) -> str:
    """Return a metric's name and signature as papers quote them."""
    return f"{name}|{settings.format()}"


def exact_matches(hypotheses: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool) -> list[bool]:
    """Return whether each line equals one of its references, except for spaces at the ends."""

    def normalised(text: str) -> str:
        return text.strip().lower() if lowercase else text.strip()

    lines = zip(hypotheses, *references, strict=True)
    return [normalised(hypothesis) in map(normalised, right) for hypothesis, *right in lines]


def percent(matches: Sequence[bool]) -> float:
    """Return the percentage of matches."""
    return 100 * sum(matches) / len(matches)


def scores_by_length(
    metrics: dict[str, Any],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    matches: Sequence[bool],
) -> tuple[LengthGroup, ...]:
    """Compute the scores of groups of lines by length, in words of the first reference as BLEU counts them."""
    tokenizer = metrics["BLEU"].tokenizer
    lengths = [len(tokenizer(line).split()) for line in references[0]]
    groups = []
    for least, after in zip(LENGTHS, (*LENGTHS[1:], None), strict=True):
        # The first group has the empty references too
        rows = [i for i, n in enumerate(lengths) if max(n, 1) >= least and (after is None or max(n, 1) < after)]
        if not rows:
            continue
        group, right = [hypotheses[i] for i in rows], [[reference[i] for i in rows] for reference in references]
        bleu = metrics["BLEU"].corpus_score(group, right)
        groups.append(
            LengthGroup(
                least=least,
                most=None if after is None else after - 1,
                n_lines=len(rows),
                bleu=bleu.score if bleu.totals[-1] else None,
                chrf=metrics["chrF"].corpus_score(group, right).score,
                exact=percent([matches[i] for i in rows]),
            )
        )
    return tuple(groups)


def worst_first(
    chrf: Any,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    matches: Sequence[bool],
    source: Sequence[str] | None,
    against: Sequence[str] | None,
) -> tuple[SentenceScore, ...]:
    """Return every line with its own chrF, the lowest chrF first."""
    sentences = []
    for i, (hypothesis, *right) in enumerate(zip(hypotheses, *references, strict=True)):
        sentences.append(
            SentenceScore(
                line=i + 1,
                # sacreBLEU gives 0 to a pair of empty lines
                chrf=100.0 if hypothesis in right else chrf.sentence_score(hypothesis, right).score,
                exact=matches[i],
                hypothesis=hypothesis,
                references=tuple(right),
                source=None if source is None else source[i],
                other=None if against is None else against[i],
            )
        )
    return tuple(sorted(sentences, key=lambda sentence: sentence.chrf))
