"""How good translations are, measured by references: BLEU, chrF, TER and exact matches, by length and line by line.

The scores are sacreBLEU's, and each has the signature that says exactly what was computed. A second system's
translations of the same lines are compared by paired bootstrap: how often lines that are drawn again show such a
difference by chance alone.

Source: Post 2018 (signatures); Papineni et al. 2002 (BLEU); Popović 2015 (chrF); Snover et al. 2006 (TER); Koehn 2004
(paired bootstrap).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from regard.errors import InputError, counted, nearest, needs
from regard.evaluation.records import Comparison, Evaluation, LengthGroup, MetricScore, SentenceScore

LENGTHS = (1, 6, 11, 21, 41, 81)
"""Where the rows of the table by length begin, in words of the reference."""

ASIAN = {"zh", "ja-mecab"}
"""BLEU's tokenizers of languages without spaces; TER then counts their letters one by one."""

N_SAMPLES = 1000
MAX_COMPARED = 30_000
"""Lines of a paired bootstrap at most; sacreBLEU holds all samples' statistics at once, some 70 kB a line."""


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
        source: what was translated, to be shown beside it.
        against: a second system's translations of the same lines.
        tokenize: how BLEU finds words; one of sacreBLEU's tokenizers.
        lowercase: take capital and small letters as the same in BLEU, chrF and exact matches; TER always does.

    Raises:
        InputError: texts of unequal length, none at all, or a tokenizer that is unknown or cannot run here.

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
    """Refuse texts that are not the same sentences line by line, as far as their number tells.

    Args:
        texts: by name; all must have as many lines as the first.

    Raises:
        InputError: one has more or fewer, or there are none.
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
    """Whether most lines end with a space and a full stop, as people do not write.

    >>> is_tokenized(["it has a venom ."]), is_tokenized(["It has a venom."])
    (True, False)
    """
    return 2 * sum(line.endswith(" .") for line in lines) > len(lines)


def build_metrics(tokenize: str, lowercase: bool) -> dict[str, Any]:
    """sacreBLEU's metrics by name, as it sets them up itself but for the tokenizer and the letters' case."""
    metrics = needs("sacrebleu.metrics", "translation")
    valid = list(metrics.BLEU.TOKENIZERS)
    if tokenize not in valid:
        raise InputError(
            f"no tokenizer {tokenize!r}; nearest: {', '.join(nearest(tokenize, valid))}; there are {', '.join(valid)}."
        )
    try:
        bleu = metrics.BLEU(tokenize=tokenize, lowercase=lowercase, force=True)  # who asks is told by is_tokenized
    except (ImportError, OSError, RuntimeError) as error:  # its dictionary is not installed, its model not on the disk
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
    """Every metric over all lines, beside the second system's where there is one."""
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
    """Every metric by paired bootstrap; the second system is its baseline."""
    significance = needs("sacrebleu.significance", "translation")
    systems = [("against", against), ("hypotheses", hypotheses)]
    test = significance.PairedTest(systems, metrics, references, test_type="bs", n_samples=N_SAMPLES)
    signatures, results = test()
    found = []
    for name, said in signatures.items():
        other, own = results[name]
        comparison = Comparison(
            other=float(other.score),
            interval=float(own.ci),
            other_interval=float(other.ci),
            p_value=float(own.p_value),
        )
        found.append(
            MetricScore(name=name, value=float(own.score), signature=signature(name, said), comparison=comparison)
        )
    return tuple(found)


def signature(name: str, said: Any) -> str:
    """A metric's name and signature as papers quote them."""
    return f"{name}|{said.format()}"


def exact_matches(hypotheses: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool) -> list[bool]:
    """Whether each line is one of its references, spaces at the ends aside."""

    def plain(text: str) -> str:
        return text.strip().lower() if lowercase else text.strip()

    lines = zip(hypotheses, *references, strict=True)
    return [plain(hypothesis) in map(plain, right) for hypothesis, *right in lines]


def percent(matches: Sequence[bool]) -> float:
    """How many of a hundred are true."""
    return 100 * sum(matches) / len(matches)


def scores_by_length(
    metrics: dict[str, Any],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    matches: Sequence[bool],
) -> tuple[LengthGroup, ...]:
    """The scores of lines of about one length: words of the first reference, as BLEU counts them."""
    tokenizer = metrics["BLEU"].tokenizer
    lengths = [len(tokenizer(line).split()) for line in references[0]]
    groups = []
    for least, after in zip(LENGTHS, (*LENGTHS[1:], None), strict=True):
        # An empty reference belongs to the shortest ones.
        rows = [i for i, n in enumerate(lengths) if max(n, 1) >= least and (after is None or max(n, 1) < after)]
        if not rows:
            continue
        some, right = [hypotheses[i] for i in rows], [[reference[i] for i in rows] for reference in references]
        bleu = metrics["BLEU"].corpus_score(some, right)
        groups.append(
            LengthGroup(
                least=least,
                most=None if after is None else after - 1,
                n_lines=len(rows),
                bleu=bleu.score if bleu.totals[-1] else None,
                chrf=metrics["chrF"].corpus_score(some, right).score,
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
    """Every line with its own chrF, the lowest first."""
    sentences = []
    for i, (hypothesis, *right) in enumerate(zip(hypotheses, *references, strict=True)):
        sentences.append(
            SentenceScore(
                line=i + 1,
                chrf=100.0 if hypothesis in right else chrf.sentence_score(hypothesis, right).score,  # 0 of two empty
                exact=matches[i],
                hypothesis=hypothesis,
                references=tuple(right),
                source=None if source is None else source[i],
                other=None if against is None else against[i],
            )
        )
    return tuple(sorted(sentences, key=lambda sentence: sentence.chrf))
