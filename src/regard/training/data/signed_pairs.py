"""Training pairs in which signs stand in place of names, numbers and addresses, so that the model learns to copy them.

Small texts have few of these items in both languages. Therefore pairs with a name, such as 톰 and Tom, are added a
second time, with a sign in place of the name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from regard.text.clean_copy import Pair
from regard.text.names import names_in
from regard.text.parallel import Report
from regard.text.placeholders import Placeholders, with_sign_pieces
from regard.text.vocabulary import Vocabulary

PAIRS_PER_ADDED_PAIR, MOST_ADDED = 5, 20_000
"""At most one pair is added for each five pairs of a corpus, and at most 20,000 pairs."""

LEAST_SIGNED_PAIRS, MOST_COUNTED = 100, 100_000
"""Signs are used if at least 100 of the first 100,000 pairs have signs; from fewer, a model does not learn to copy."""


@dataclass(frozen=True, slots=True)
class SignedPairs:
    """The training pairs with signs.

    Attributes:
        placeholders: the placeholders of the translator that is trained.
        names: names in the source language and their translations.
    """

    placeholders: Placeholders
    names: Mapping[str, str]

    @classmethod
    def of(cls, placeholders: Placeholders, pairs: Iterable[Pair]) -> "SignedPairs":
        """Find the names in training pairs."""
        return cls(placeholders, names_in(pairs, capitals=0 if placeholders.latin else 1))

    def __call__(self, pairs: Iterable[Pair], report: Report) -> Iterator[Pair]:
        """Yield the training pairs with signs in place of items, and after some of them a pair with signs for names.

        Args:
            report: the numbers of pairs with signs, and of pairs added, are added to its counts.
        """
        n_added = 0
        for n_pairs, pair in enumerate(pairs, start=1):
            signed = self.placeholders.signed_pair(*pair)
            report.signed += signed != pair
            yield signed
            if n_added < MOST_ADDED and n_added * PAIRS_PER_ADDED_PAIR < n_pairs:
                named = self.placeholders.signed_pair(*pair, self.names)
                if named != signed:
                    n_added += 1
                    report.named += 1
                    yield named


def with_signs_if_learnt(
    vocabularies: tuple[Vocabulary, Vocabulary], pairs: Callable[[], Iterable[Pair]]
) -> tuple[Vocabulary, Vocabulary]:
    """Return the two vocabularies with pieces for the signs, or as they are if too few of the pairs have items."""
    signed = SignedPairs.of(Placeholders.for_language(vocabularies[0]), pairs())
    report = Report()
    for _ in signed(islice(pairs(), MOST_COUNTED), report):
        if report.signed + report.named >= LEAST_SIGNED_PAIRS:
            return with_sign_pieces(vocabularies[0]), with_sign_pieces(vocabularies[1])
    return vocabularies
