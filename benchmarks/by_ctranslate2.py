"""CTranslate2 for a process of its own; this file imports no PyTorch, so that the process starts quickly."""

from collections.abc import Sequence
from typing import Any

MOST_PIECES = 256
"""The largest number of pieces in a translation, for all programs."""

LOADED: dict[str, Any] = {}
"""The loaded model and vocabularies; used only in the process of CTranslate2."""


def load_ctranslate2(folder: str, kind: str, threads: int) -> None:
    """Load the model; the process of CTranslate2 runs this function."""
    import ctranslate2  # type: ignore[import-untyped]
    from sentencepiece import SentencePieceProcessor

    for side in ("source", "target"):
        LOADED[side] = SentencePieceProcessor(model_file=f"{folder}/{side}.spm")
    LOADED["translator"] = ctranslate2.Translator(folder, compute_type=kind, inter_threads=1, intra_threads=threads)


def translate_by_ctranslate2(lines: Sequence[str], beam: int) -> list[str]:
    """Translate a batch of lines; the process of CTranslate2 runs this function."""
    pieces = LOADED["source"].encode(list(lines), out_type=str)
    found = LOADED["translator"].translate_batch(
        pieces, beam_size=beam, max_batch_size=len(lines), max_decoding_length=MOST_PIECES
    )
    return [LOADED["target"].decode(one.hypotheses[0]) for one in found]
