"""Writing a folder like those of OPUS-MT: a small random Marian model with SentencePiece vocabularies."""

import json
from io import BytesIO
from pathlib import Path

import torch
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from transformers import MarianConfig, MarianMTModel

from regard.text.sample import sample

PAIRS = sample("en", "fr", {"train": 300}, seed=7)["train"]
CODE = ">>fra<<"


def sentencepiece(lines, **options):
    """Train a SentencePiece model on lines; its special ids are the defaults <unk>, <s>, </s>, no padding."""
    written = BytesIO()
    given = {"vocab_size": 60, "model_type": "unigram", "normalization_rule_name": "nmt_nfkc", **options}
    SentencePieceTrainer.Train(sentence_iterator=iter(lines), model_writer=written, minloglevel=3, **given)
    return written.getvalue()


def pieces_in(model):
    processor = SentencePieceProcessor(model_proto=model)
    return [processor.IdToPiece(token) for token in range(3, processor.GetPieceSize())]


def write_marian(folder: Path, *, left_out=(), **options) -> Path:
    """Write the folder; its vocab.json is in the order of OPUS-MT's: </s>, <unk>, the pieces of both languages, <pad>.

    `left_out` are pieces that vocab.json lacks; `options` override those of SentencePiece.
    """
    folder.mkdir()
    models = [sentencepiece(lines, **options) for lines in zip(*PAIRS, strict=True)]
    for side, model in zip(("source", "target"), models, strict=True):
        (folder / f"{side}.spm").write_bytes(model)
    pieces = dict.fromkeys(piece for model in models for piece in pieces_in(model) if piece not in left_out)
    ids = {piece: number for number, piece in enumerate(["</s>", "<unk>", *pieces, CODE, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    names = {"tokenizer_class": "MarianTokenizer", "source_lang": "eng", "target_lang": "fra"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    random_marian(len(ids), eos_token_id=0, pad_token_id=len(ids) - 1).save_pretrained(folder)
    return folder


def write_marian_of_two_tables(folder: Path) -> Path:
    """Write a Marian folder whose source and target have a table of ids and an embedding each, of different sizes."""
    folder.mkdir()
    sizes = []
    for side, name, lines, size in zip(
        ("source", "target"), ("vocab.json", "target_vocab.json"), zip(*PAIRS, strict=True), (60, 53), strict=True
    ):
        model = sentencepiece(lines, vocab_size=size)
        (folder / f"{side}.spm").write_bytes(model)
        ids = {piece: number for number, piece in enumerate(["</s>", "<unk>", "<pad>", *pieces_in(model)])}
        (folder / name).write_text(json.dumps(ids), encoding="utf-8")
        sizes.append(len(ids))
    names = {"tokenizer_class": "MarianTokenizer", "source_lang": "eng", "target_lang": "fra", "separate_vocabs": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    separate = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False, "decoder_vocab_size": sizes[1]}
    separate |= {"encoder_layers": 1, "decoder_layers": 1}
    random_marian(sizes[0], eos_token_id=0, pad_token_id=2, **separate).save_pretrained(folder)
    return folder


def random_marian(n_pieces, **options):
    """A Marian model whose random parameters are large, so that a mistake shows."""
    sizes = {f"{side}_{name}": number for side in ("encoder", "decoder") for name, number in SIZES.items()}
    usual = {"d_model": 24, "max_position_embeddings": 41, "scale_embedding": True, "activation_function": "swish"}
    start = {"decoder_start_token_id": options["pad_token_id"], "forced_eos_token_id": None}
    config = MarianConfig(vocab_size=n_pieces, **{**sizes, **usual, **start, **options})
    model = MarianMTModel(config).eval()
    generator = torch.Generator().manual_seed(5)
    for name, parameter in model.named_parameters():
        if "embed_positions" not in name:
            parameter.data.normal_(generator=generator).mul_(0.2 if "shared" in name else 0.9)
    model.final_logits_bias.normal_(generator=generator).mul_(0.3)
    return model


SIZES = {"layers": 2, "attention_heads": 4, "ffn_dim": 29}
