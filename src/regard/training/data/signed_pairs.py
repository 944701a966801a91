"""Training pairs in which signs such as ⟐ replace names, numbers and addresses, so that the model learns to copy signs.

regard.text.placeholders has the rules. In a small corpus, few pairs have a name, number or address that stands in
both texts. Therefore pairs with a name and its translation, such as 톰 and Tom, are added a second time, with a sign in
place of the name and of its translation.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from regard.text.names import names_in
from regard.text.parallel import Pair, Report
from regard.text.placeholders import Placeholders, with_sign_pieces
from regard.text.vocabulary import Vocabulary

PAIRS_PER_ADDED_PAIR, MOST_ADDED = 5, 20_000
"""At most one pair with signs (such as ⟐) for names is added per five pairs of a corpus, and at most 20,000 in all."""

LEAST_SIGNED_PAIRS, MOST_COUNTED = 100, 100_000
"""Signs (such as ⟐ for a name) are used only if the first 100,000 pairs give at least 100 pairs with signs. From fewer
pairs, a model does not learn to copy signs."""


def names_for(placeholders: Placeholders, pairs: Iterable[Pair]) -> dict[str, str]:
    # capital letters show names: in the source (0) if it is written in Latin letters, else in the target (1)
    side_with_capitals = 0 if placeholders.latin else 1
    return names_in(pairs, capitals=side_with_capitals)


def signed_pairs(
    pairs: Iterable[Pair], placeholders: Placeholders, names: Mapping[str, str], report: Report
) -> Iterator[Pair]:
    """Yield each training pair with signs in place of the names, numbers and addresses that are in both texts.

    Some pairs are followed by a copy in which a sign also replaces a name and its translation, e.g. 톰 and Tom.

    Args:
        names: names in the source language and their translations.
        report: its count `signed` grows by the number of pairs with signs, `named` by the number of copies.
    """
    n_added = 0
    for n_pairs, pair in enumerate(pairs, start=1):
        signed = placeholders.signed_pair(*pair)
        report.signed += signed != pair
        yield signed
        if n_added < MOST_ADDED and n_added * PAIRS_PER_ADDED_PAIR < n_pairs:
            named = placeholders.signed_pair(*pair, names)
            if named != signed:
                n_added += 1
                report.named += 1
                yield named


def with_signs_if_learnt(
    vocabularies: tuple[Vocabulary, Vocabulary], pairs: Callable[[], Iterable[Pair]]
) -> tuple[Vocabulary, Vocabulary]:
    """Return the vocabularies with a piece for each sign, such as ⟐ for a name; unchanged if too few pairs have signs.

    `pairs` is a function that returns the training pairs, because the pairs are read twice.
    """
    placeholders, report = Placeholders.for_language(vocabularies[0]), Report()
    # the pairs are not used: while `signed_pairs` makes them, it counts them in `report`
    for _ in signed_pairs(islice(pairs(), MOST_COUNTED), placeholders, names_for(placeholders, pairs()), report):
        if report.signed + report.named >= LEAST_SIGNED_PAIRS:
            return with_sign_pieces(vocabularies[0]), with_sign_pieces(vocabularies[1])
    return vocabularies
