"""Replace the unknown pieces of a translation by letters of the source.

Source: Luong et al. 2015, "Addressing the rare word problem", section 3.3 (here by attention).
"""

from dataclasses import replace

from regard.text.cleaning import tidied
from regard.text.vocabulary import UNK
from regard.translation.alignment import Alignment
from regard.translation.pieces import text_of_pieces
from regard.translation.translation import Translation


def with_copied_letters(translation: Translation, alignment: Alignment) -> Translation:
    """Return a translation with letters of the source in index of its unknown pieces.

    An unknown target piece becomes the unknown source piece with the largest attention weight. If the source has no
    unknown piece, it becomes the source word that the alignment gives its word.
    """
    pieces = list(translation.target_pieces)
    unknown = [index for index, token in enumerate(translation.source_ids) if token == UNK]
    for row, token in enumerate(translation.target_ids):
        if token != UNK:
            continue
        if unknown:
            largest = alignment.piece_weights[row, unknown].argmax()
            pieces[row] = translation.source_pieces[unknown[int(largest)]]
        else:
            largest = alignment.weights[alignment.target_word_of[row]].argmax()
            pieces[row] = tidied(alignment.source_words[int(largest)])
    return replace(translation, text=text_of_pieces(pieces), target_pieces=tuple(pieces))
