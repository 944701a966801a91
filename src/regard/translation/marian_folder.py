"""Marian models, such as those of OPUS-MT, read as translators from folders that the transformers library wrote.

    config.json, model.safetensors     the model
    source.spm, target.spm             a SentencePiece model for each language
    vocab.json                         the id of each piece, for both languages
    target_vocab.json                  the ids of the target's pieces, if the languages have separate ids

Marian's token ids are those of vocab.json. regard's vocabularies begin with padding, unknown, BOS and EOS, so the rows
of the embedding matrices are reordered. regard's targets begin with BOS, Marian's with the token whose id config.json
gives as decoder_start_token_id. BOS therefore gets the row of this token. It is usually the padding token, so padding
gets a new row, with a bias so low that padding is never predicted.

Source: Tiedemann & Thottingal 2020, "OPUS-MT".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError, first_paragraph, reason
from regard.json_file import read_json
from regard.text.foreign_vocabulary import vocabulary_from_table
from regard.text.vocabulary import EOS
from regard.tracing.model_loading import check_layer_counts, quiet_transformers
from regard.transformer.marian import from_marian
from regard.transformer.model import Transformer
from regard.translation.translator_folder import TranslatorContents, holds_translator, read_translator

NEVER_PREDICTED = -100.0
"""The bias of padding's logit: so low that the probability of padding is 0 in float32.

Its log-probability is finite, so that a loss with label smoothing, which sums all log-probabilities, is finite too.
"""


@dataclass(frozen=True, slots=True)
class MarianIds:
    """Special ids in a Marian model's config.json: of padding, of the start of a target, and of EOS (`end`)."""

    pad: int
    start: int
    end: int


def read_any_translator(folder: Path, device: torch.device | str = "cpu") -> TranslatorContents:
    """Read a translator of regard, or a Marian model of transformers."""
    has_marian_model = (folder / "config.json").is_file() and (folder / "source.spm").is_file()
    is_marian = has_marian_model and not holds_translator(folder)
    return read_marian(folder, device) if is_marian else read_translator(folder, device)


def read_marian(folder: Path, device: torch.device | str = "cpu") -> TranslatorContents:
    for name in ("source.spm", "target.spm", "vocab.json"):
        if not (folder / name).is_file():
            raise InputError(f"{folder} is incomplete: {name} is missing; a Marian folder has it beside config.json.")
    config = read_object(folder / "config.json")
    tokenizer_file = folder / "tokenizer_config.json"
    tokenizer = read_object(tokenizer_file) if tokenizer_file.is_file() else {}
    for name in ("pad_token_id", "decoder_start_token_id", "eos_token_id"):
        if type(config.get(name)) is not int:
            given = f"{folder / 'config.json'} has {name} = {config.get(name)!r:.40}"
            raise InputError(f"{given}; it must be the id of a piece.")
    ids = MarianIds(pad=config["pad_token_id"], start=config["decoder_start_token_id"], end=config["eos_token_id"])
    model = marian_model(folder)
    unknown = str(tokenizer.get("unk_token", "<unk>"))
    source_table_file = folder / "vocab.json"
    target_table_file = folder / "target_vocab.json" if tokenizer.get("separate_vocabs") else source_table_file
    source_table = piece_table(source_table_file, model.config.n_source_tokens)
    target_table = piece_table(target_table_file, model.config.n_target_tokens)
    if model.config.norm == "pre":
        # A Marian model is post-norm; `regard export` writes a pre-norm Transformer as a Pegasus model, with the files
        # of a Marian folder. Its two embeddings have equally many rows: after the rows of the smaller vocabulary's
        # pieces follow rows that belong to no piece.
        source_table, target_table = without_empty_end(source_table), without_empty_end(target_table)
    source_order = row_order(source_table_file, source_table, ids, unknown)
    target_order = row_order(target_table_file, target_table, ids, unknown)
    source = vocabulary_from_table(folder / "source.spm", ordinary_pieces(source_table, source_order))
    target = vocabulary_from_table(folder / "target.spm", ordinary_pieces(target_table, target_order))
    return TranslatorContents(
        model=with_row_order(model, source_order, target_order).to(device).eval(),
        source_vocabulary=source,
        target_vocabulary=source if source == target else target,
        extra={},
    )


def marian_model(folder: Path) -> Transformer:
    check_layer_counts(folder)
    try:
        with quiet_transformers(progress=False):
            return from_marian(folder)
    except InputError:
        raise
    except Exception as error:  # damaged files raise exceptions of many classes
        raise InputError(f"{folder} has no Marian model that can be read: {first_paragraph(error)}.") from error


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; raise InputError if the file cannot be read, or if it has no JSON object."""
    try:
        value = read_json(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}.") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: it is not JSON; copy the folder again.") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} is damaged: it is not a JSON object; copy the folder again.")
    return value


def piece_table(path: Path, n_rows: int) -> list[str]:
    """Read a JSON file {piece: id}; return the piece of each id below `n_rows`, "" for an id without a piece."""
    table = [""] * n_rows
    for piece, token in read_object(path).items():
        if type(token) is not int or not 0 <= token < n_rows:
            raise InputError(
                f"{path} gives {piece!r:.40} the id {token!r:.40}, and the model has the ids 0 to {n_rows - 1:,}; "
                "copy the whole folder again."
            )
        table[token] = piece
    return table


def without_empty_end(table: list[str]) -> list[str]:
    last = max(token for token, piece in enumerate(table) if piece)
    return table[: last + 1]


def ordinary_pieces(table: Sequence[str], order: Sequence[int | None]) -> list[str]:
    """Return all pieces but the special ones, which have the ids up to EOS, in the order of regard's ids."""
    return [table[row] for row in order[EOS + 1 :] if row is not None]  # None occurs only for PAD


def row_order(path: Path, table: Sequence[str], ids: MarianIds, unknown: str) -> list[int | None]:
    """Return, for each id of regard's vocabulary, the row of Marian's embedding matrices that belongs to it.

    The special pieces have other ids in regard than in Marian. None = a new row: padding needs one if Marian has the
    same row for padding and for the start of a target (BOS).

    Args:
        path: the file of `table`, for messages.
        table: Marian's pieces, by id.
        unknown: the text of the unknown piece.
    """
    if unknown not in table:
        raise InputError(f"{path} has no piece {unknown:.40}; a Marian vocabulary has one for unknown words.")
    # in the order of regard's ids: PAD, UNK, BOS, EOS
    special_rows = [None if ids.pad == ids.start else ids.pad, table.index(unknown), ids.start, ids.end]
    taken = [row for row in special_rows if row is not None]
    if not all(0 <= row < len(table) for row in taken) or len(set(taken)) < len(taken):
        raise InputError(
            f"{path.parent / 'config.json'} gives special pieces the ids pad {ids.pad}, start {ids.start} and end "
            f"{ids.end}, which do not fit {path.name} with {len(table):,} pieces; copy the whole folder again."
        )
    return [*special_rows, *(row for row in range(len(table)) if row not in taken)]


def with_row_order(model: Transformer, source: Sequence[int | None], target: Sequence[int | None]) -> Transformer:
    """Return a copy of a Transformer with the rows of its embedding and output matrices in another order.

    Args:
        source, target: for each new id, the index of its row in `model`; None = a row of zeros, never predicted.
    """
    config = replace(model.config, n_source_tokens=len(source), n_target_tokens=len(target))
    state = model.state_dict()
    for name, order, new_value in (
        ("encoder.embedding.by_token.weight", source, 0.0),
        ("decoder.embedding.by_token.weight", target, 0.0),
        ("decoder.to_logits.weight", target, 0.0),
        ("decoder.to_logits.bias", target, NEVER_PREDICTED),
    ):
        state[name] = reorder_rows(state[name], order, new_value)
    # Transformer(config) draws random parameters, which are then replaced; fork_rng keeps the caller's random numbers
    with torch.random.fork_rng(devices=[]):
        ordered = Transformer(config).to(model.decoder.to_logits.weight)  # the same data type and device
    ordered.load_state_dict(state)
    return ordered


def reorder_rows(rows: Tensor, order: Sequence[int | None], new_value: float) -> Tensor:
    """Return a tensor whose row i is rows[order[i]], or is filled with `new_value` if order[i] is None."""
    with_new_row = torch.cat([rows, rows.new_full((1, *rows.shape[1:]), new_value)])
    return with_new_row[[len(rows) if row is None else row for row in order]]
