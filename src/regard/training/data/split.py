"""The split of a corpus into training pairs and dev pairs, which are used only to evaluate.

If the user gives no files of dev pairs, source sentences are chosen at random, and all pairs with these sources become
dev pairs. If one of these sources has a target that also occurs in a training pair, all pairs with this source become
training pairs again: dev pairs and training pairs share no sentence. Exception: if no dev pair is left, all chosen
pairs are dev pairs, and some of their targets may occur in training pairs, too.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, islice

from regard.errors import InputError, counted
from regard.text.parallel import CleanCopy, Pair, Parallel, Report
from regard.text.vocabulary import Vocabulary
from regard.training.data.corpora import TextFiles
from regard.training.settings.settled_config import CorpusConfig

RANKS_AT_ONCE = 100_000
"""The number of ranks that `largest_dev_rank` reads at a time, so that it need not hold all of them in memory."""


@dataclass(frozen=True, slots=True)
class Split:
    """The split into training pairs and dev pairs. The choice of dev pairs depends only on the corpora and the seed.

    Attributes:
        corpora: the corpora. A corpus with a tag is synthetic: no dev pair is taken out of it.
        dev_files: the files of dev pairs that the user gives; None = dev pairs are taken out of the corpora.
        held_out: the sources of the dev pairs that are taken out of the corpora.
        held_out_targets: the targets of these dev pairs; synthetic pairs with these targets are not trained on.
    """

    corpora: tuple[CleanCopy, ...]
    dev_files: Parallel | None
    held_out: frozenset[str]
    held_out_targets: frozenset[str]
    seed: int

    @classmethod
    def of(cls, corpora: Sequence[CleanCopy], texts: TextFiles, config: CorpusConfig) -> "Split":
        seed, copies = config.training.seed, tuple(corpora)
        if "dev source" in texts:
            dev_files = Parallel(texts["dev source"], texts["dev target"])
            return cls(copies, dev_files, frozenset(), frozenset(), seed)
        genuine = [corpus for corpus in copies if not corpus.tag]

        def pairs() -> Iterator[Pair]:
            return chain.from_iterable(corpus.pairs() for corpus in genuine)

        n_dev, n_pairs = config.data.dev_pairs, sum(1 for _ in pairs())
        limit = largest_dev_rank((source for source, _ in pairs()), n_dev, seed)
        chosen = [(source, target) for source, target in pairs() if random_rank(source, seed) <= limit]
        sources = {source for source, _ in chosen}
        if len(chosen) == n_pairs:
            paths = [f"{path}" for corpus in genuine for path in (corpus.parallel.source, corpus.parallel.target)]
            raise InputError(
                f"{', '.join(paths[:-1])} and {paths[-1]} have {counted(n_pairs, 'pair')} with "
                f"{counted(len(sources), 'different source')}; with data.dev_pairs = {n_dev} no training pair is left: "
                "give more pairs, a smaller data.dev_pairs, or separate dev pairs with --dev-source and --dev-target."
            )
        other_pairs = ((source, target) for source, target in pairs() if source not in sources)
        held_out = sources_with_own_targets(chosen, other_pairs) or frozenset(sources)
        targets = frozenset(target for source, target in chosen if source in held_out)
        return cls(copies, None, held_out, targets, seed)

    def training_pairs(self) -> Iterator[Pair]:
        return chain.from_iterable(self.training_pairs_of(corpus) for corpus in self.corpora)

    def training_pairs_of(self, corpus: CleanCopy, report: Report | None = None) -> Iterator[Pair]:
        """Yield the training pairs of a corpus; add the number of its other pairs to `report.held_out`."""
        for source, target in corpus.pairs():
            # a corpus with a tag is synthetic: only its targets, not its machine-written sources, can be in dev pairs
            is_held_out = target in self.held_out_targets if corpus.tag else source in self.held_out
            if not is_held_out:
                yield source, target
            elif report is not None:
                report.held_out += 1

    def dev_pairs(self, report: Report | None = None) -> Iterator[Pair]:
        """Yield the dev pairs. If they come from files of their own, `report` counts the pairs that are read."""
        if self.dev_files is not None:
            return self.dev_files.pairs(report)
        pairs = chain.from_iterable(corpus.pairs() for corpus in self.corpora if not corpus.tag)
        return (pair for pair in pairs if pair[0] in self.held_out)

    def remark_on_trained_dev_pairs(self) -> str:
        """Return a remark on the dev pairs that are training pairs, too; "" = there are none."""
        dev_pairs = set(self.dev_pairs())
        n_trained = len(dev_pairs.intersection(self.training_pairs()))
        if n_trained == 0:
            return ""
        counts = f"{n_trained:,} of {len(dev_pairs):,}"
        return f"dev pairs that are training pairs, too: {counts}; new texts get worse scores"

    def pairs_to_translate(self, n: int, vocabulary: Vocabulary, max_tokens: int) -> list[Pair]:
        """Return at most n random dev pairs, the same in every run, whose sources have at most `max_tokens` tokens."""
        other_seed = self.seed + 1  # `seed` has chosen the dev pairs with the lowest ranks
        in_random_order = sorted(self.dev_pairs(), key=lambda pair: random_rank(pair[0], other_seed))
        return list(islice((pair for pair in in_random_order if len(vocabulary.encode(pair[0])) <= max_tokens), n))


def sources_with_own_targets(chosen: Iterable[Pair], others: Iterable[Pair]) -> frozenset[str]:
    """Return the sources whose dev pairs have no target in common with a training pair.

    If a source shares a target with a training pair, all pairs of the source become training pairs. Then another source
    may share a target with these new training pairs: its pairs become training pairs too, and so on.

    Args:
        chosen: the pairs that were chosen as dev pairs.
        others: all other pairs; they are training pairs.

    >>> chosen = [("a", "1"), ("b", "1"), ("b", "2"), ("c", "3"), ("d", "4")]
    >>> sorted(sources_with_own_targets(chosen, [("e", "2"), ("f", "4")]))
    ['c']
    """
    sources_of, targets_of = dict[str, set[str]](), dict[str, set[str]]()
    for source, target in chosen:
        sources_of.setdefault(target, set()).add(source)
        targets_of.setdefault(source, set()).add(target)
    dev_sources = set(targets_of)
    training_targets = {target for _, target in others if target in sources_of}
    while training_targets:
        moved_sources = {source for target in training_targets for source in sources_of[target]} & dev_sources
        dev_sources -= moved_sources
        training_targets = {target for source in moved_sources for target in targets_of[source]}
    return frozenset(dev_sources)


def random_rank(source: str, seed: int) -> int:
    """Return a random number from 0 to 2⁶⁴ - 1, computed from a source text and a seed."""
    key = seed.to_bytes(8, "little", signed=True)
    return int.from_bytes(blake2b(source.encode(), key=key, digest_size=8).digest(), "little")


def largest_dev_rank(sources: Iterable[str], n: int, seed: int) -> int:
    """Return the n-th smallest `random_rank` of the sources: pairs whose source has at most this rank become dev pairs.

    Equal sources have equal ranks and count once, so no source is in both the dev pairs and the training pairs.

    Args:
        sources: the source text of each pair of the corpus; texts may be repeated.

    Returns:
        The n-th smallest rank, or the largest if there are fewer; -1, which is below every rank, if n is 0 or there are
        no sources.
    """
    ranks, smallest = (random_rank(source, seed) for source in sources), list[int]()
    while next_ranks := set(islice(ranks, RANKS_AT_ONCE)):
        smallest = heapq.nsmallest(n, next_ranks.union(smallest))
    return smallest[-1] if smallest else -1
