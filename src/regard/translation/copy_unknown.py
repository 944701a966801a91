"""Replace the unknown pieces of a translation by text copied from the source.

Source: Luong et al. 2015, "Addressing the rare word problem", section 3.3 (here by attention).
"""

from dataclasses import replace

from regard.text.cleaning import tidied
from regard.text.vocabulary import UNK
from regard.translation.alignment import Alignment
from regard.translation.pieces import text_of_pieces
from regard.translation.translation import Translation


def with_copied_text(translation: Translation, alignment: Alignment) -> Translation:
    """Return the translation with each unknown target piece replaced by text from the source.

    That text is the unknown source piece on which the target piece has the largest attention weight. If the source has
    no unknown piece, it is the source word on which the target piece's word has the largest weight.
    """
    pieces = list(translation.target_pieces)
    unknown_in_source = [index for index, token in enumerate(translation.source_ids) if token == UNK]
    for row, token in enumerate(translation.target_ids):
        if token != UNK:
            continue
        if unknown_in_source:
            largest = alignment.piece_weights[row, unknown_in_source].argmax()
            pieces[row] = translation.source_pieces[unknown_in_source[int(largest)]]
        else:
            largest = alignment.weights[alignment.target_word_of[row]].argmax()
            pieces[row] = tidied(alignment.source_words[int(largest)])
    return replace(translation, text=text_of_pieces(pieces), target_pieces=tuple(pieces))
