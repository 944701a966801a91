"""CTranslate2 for a process of its own, which starts quickly because this file imports no PyTorch."""

from collections.abc import Sequence
from typing import Any

MOST_PIECES = 256

LOADED: dict[str, Any] = {}
"""The loaded model and vocabularies, in the process of CTranslate2."""


def load_ctranslate2(folder: str, kind: str, threads: int) -> None:
    import ctranslate2  # type: ignore[import-untyped]
    from sentencepiece import SentencePieceProcessor

    for side in ("source", "target"):
        LOADED[side] = SentencePieceProcessor(model_file=f"{folder}/{side}.spm")
    LOADED["translator"] = ctranslate2.Translator(folder, compute_type=kind, inter_threads=1, intra_threads=threads)


def translate_by_ctranslate2(lines: Sequence[str], beam: int) -> list[str]:
    pieces = LOADED["source"].encode(list(lines), out_type=str)
    results = LOADED["translator"].translate_batch(
        pieces, beam_size=beam, max_batch_size=len(lines), max_decoding_length=MOST_PIECES
    )
    return [LOADED["target"].decode(result.hypotheses[0]) for result in results]
