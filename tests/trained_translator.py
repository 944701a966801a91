"""Making a translator for tests: small, with trained vocabularies, trained on eight sentences."""

import torch
import torch.nn.functional as F

from regard.recurrent.config import RecurrentConfig
from regard.recurrent.model import Recurrent
from regard.text.vocabulary import BOS, EOS, PAD, Vocabulary
from regard.transformer.config import TransformerConfig
from regard.transformer.model import Transformer
from regard.translation.search.interface import pad_sequences
from regard.translation.translator import Translator

PAIRS = {
    "the cat sat on a mat": "die katze saß auf einer matte",
    "a dog ran to the cat": "ein hund lief zur katze",
    "no dog": "kein hund",
    "a dog sat": "ein hund saß",
    "the cat ran": "die katze lief",
    "I am a student": "ich bin student",
    "no cat sat on the mat.": "keine katze saß auf der matte.",
    "I ran to a dog, and sat": "ich lief zu einem hund und saß",
}


def train_vocabularies():
    sources, targets = [*PAIRS], [*PAIRS.values()]
    return Vocabulary.train(sources * 9, 41), Vocabulary.train(targets * 9, 53)


def train_translator(source, target, pairs=PAIRS, **fields):
    return train_model(new_transformer(source, target, **fields), source, target, pairs)


def train_recurrent(source, target, pairs=PAIRS, **fields):
    torch.manual_seed(0)
    sizes = {"n_source_tokens": len(source), "n_target_tokens": len(target), "d_model": 32, "max_tokens": 31}
    return train_model(Recurrent(RecurrentConfig(**sizes, **fields)).eval(), source, target, pairs)


def train_model(model, source, target, pairs):
    """Train a model on the pairs just enough that its translations differ and end with EOS; return its translator."""
    sources, targets = [[*source.encode(text), EOS] for text in pairs], [target.encode(text) for text in pairs.values()]
    (read, lengths), (given, _) = pad_sequences(sources), pad_sequences([[BOS, *ids] for ids in targets])
    expected, _ = pad_sequences([[*ids, EOS] for ids in targets])
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        logits = model(read, lengths, given).logits
        loss = F.cross_entropy(logits.flatten(0, 1), expected.flatten(), ignore_index=PAD)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return Translator(model=model, source_vocabulary=source, target_vocabulary=target)


def new_transformer(source, target, seed=0, **fields):
    torch.manual_seed(seed)
    sizes = {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_layers": 3, "share": "target", "max_tokens": 31}
    fields = {"n_source_tokens": len(source), "n_target_tokens": len(target), **sizes, **fields}
    return Transformer(TransformerConfig(**fields)).eval()
