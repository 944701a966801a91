"""Measure the time and memory for attention statistics of all heads of a transformers model: eager, and regard."""

from collections.abc import Callable, Mapping
from statistics import median

import numpy as np
import torch
import typer
from machine import machine
from measure import Run, in_new_process, peak_memory, ratio, take_turns
from options import Length, Out, Quick, Seconds, Threads
from picture import Picture
from table import Row, Table, command_of, publish, with_progress
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaModel

import regard
from regard import Ask

LENGTHS = 512, 1024, 2048, 4096, 8192
N_LAYERS, N_HEADS, WIDTH, N_TOKENS = 4, 8, 64, 1000
CELLS = 64
ASK = Ask(received=True, entropy=True, distance=False, first=False, pooled=(CELLS, CELLS))

MOST_BUILT = 8192
"""The most tokens for eager attention: the weights take 8 GiB, and 24 GiB with their copies."""


def main(
    length: Length = None, seconds: Seconds = 60, threads: Threads = None, quick: Quick = False, out: Out = None
) -> None:
    """Time a model that computes statistics of all heads, and measure its memory.

    \b
    Example
      python benchmarks/models.py --length 4096
    """
    torch.set_num_threads(threads or torch.get_num_threads())
    if quick:
        length, seconds = length or [128], min(seconds, 0.2)
    table = Table(
        name="models",
        title="A Hugging Face model and what its heads look at",
        about=(
            f"A Llama with random parameters: {N_LAYERS} layers of {N_HEADS} heads of width {WIDTH}, float32, one "
            f"text. regard: the model computes the received attention, the entropy and a {CELLS} x {CELLS} map of "
            "every head. dense: NumPy computes the same statistics from the weights that transformers returns with "
            "output_attentions=True and eager attention, as bertviz and similar tools get them. The memory is the peak "
            "above the model's own, each measured in a process of its own."
        ),
        command=command_of(__file__),
        machine=machine("transformers", "numpy"),
        rows=[measured(n, seconds) for n in with_progress(length or LENGTHS, "models")],
        picture=Picture(x="length", y=["forward s", "regard s", "dense s"], label="seconds", log=True),
    )
    publish(table, out, quick)


def measured(length: int, seconds: float) -> Row:
    names = [name for name in WAYS if name != "dense" or length <= MOST_BUILT]
    check_statistics(min(length, 256))
    elapsed = take_turns({name: WAYS[name](length) for name in names}, seconds)
    memory = {name: in_new_process(peak_of, name, length) / 2**20 for name in names}
    has_dense = "dense" in names
    return {
        "length": length,
        **{f"{name} s": median(elapsed[name]) if name in elapsed else None for name in WAYS},
        "regard / forward": ratio(elapsed["regard"], elapsed["forward"]),
        "dense / regard": ratio(elapsed["dense"], elapsed["regard"]) if has_dense else None,
        **{f"{name} MiB": memory.get(name) for name in WAYS},
        "dense / regard, memory": memory["dense"] / memory["regard"] if has_dense and memory["regard"] else None,
    }


def forward(length: int) -> Run:
    """Return a function that runs the model without statistics."""
    llama, text = model("sdpa", length), tokens(length)
    return torch.inference_mode()(lambda: llama(text))


def dense(length: int) -> Run:
    """Return a function that runs the model with eager attention and computes the statistics of its weights."""
    llama, text = model("eager", length), tokens(length)

    @torch.inference_mode()
    def answer() -> list[Mapping[str, np.ndarray]]:
        layers = list(llama(text, output_attentions=True).attentions)
        # pop frees the weights of each layer
        return [statistics_by_numpy(layers.pop(0).numpy()) for _ in range(len(layers))]

    return answer


def statistics_by_numpy(weights: np.ndarray) -> Mapping[str, np.ndarray]:
    batch, heads, queries, keys = weights.shape
    cells = weights.reshape(batch, heads, CELLS, queries // CELLS, CELLS, keys // CELLS)
    logs = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
    return {
        "received": weights.sum(axis=-2),
        "entropy": -np.einsum("bhqk,bhqk->bhq", weights, logs),
        "pooled": cells.mean(axis=(3, 5)),
    }


def regarded(length: int) -> Run:
    """Return a function that runs the model with regard and computes the statistics of the patterns of all layers."""
    llama, text = regard.install(model("sdpa", length)), tokens(length)

    @torch.inference_mode()
    def answer() -> list[Mapping[str, Tensor]]:
        layers = [pattern.answer(ASK) for pattern in llama(text, output_attentions=True).attentions]
        return [{name: getattr(layer, name) for name in ("received", "entropy", "pooled")} for layer in layers]

    return answer


WAYS: Mapping[str, Callable[[int], Run]] = {"forward": forward, "regard": regarded, "dense": dense}


def model(attention: str, length: int) -> nn.Module:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=N_TOKENS,
        hidden_size=N_HEADS * WIDTH,
        intermediate_size=4 * N_HEADS * WIDTH,
        num_hidden_layers=N_LAYERS,
        num_attention_heads=N_HEADS,
        max_position_embeddings=length,
        attn_implementation=attention,
        use_cache=False,
    )
    return LlamaModel(config).eval()


def tokens(length: int) -> Tensor:
    return torch.randint(N_TOKENS, (1, length), generator=torch.Generator().manual_seed(length))


def check_statistics(length: int) -> None:
    for ours, theirs in zip(regarded(length)(), dense(length)(), strict=True):  # type: ignore[call-overload]
        for name, answer in ours.items():
            np.testing.assert_allclose(answer, theirs[name], atol=1e-4, rtol=1e-4)


def peak_of(way: str, length: int) -> int:
    """Return the peak of memory in bytes, without the model's own, after a first run on a short text."""
    WAYS[way](CELLS)()
    return peak_memory(WAYS[way](length))


if __name__ == "__main__":
    typer.run(main)
