"""A script that prints an example of each mask, for eight queries and keys: python -m regard.attention.masks."""

import torch

from regard.attention.grid.grid import Grid
from regard.attention.masks import Causal, Chunked, Dilated, Documents, Global, Padding, Prefix, Window

if __name__ == "__main__":
    grid = Grid(batch=1, heads=1, queries=8, keys=8)
    documents = Documents(torch.tensor([0, 0, 0, 0, 0, 1, 1, 1]))
    near = (Window(before=2, after=1), Dilated(before=4, after=2, step=2), Chunked(size=3))
    single = (Causal(), Prefix(length=3), *near, Global([0, 5]), documents)
    padded = (Padding(torch.tensor([6])), Padding(torch.tensor([6]), side="left"))
    joined = (Causal() & documents, Window(before=1, after=1) | Global([0]), ~Causal())
    for mask in (*single, *padded, *joined):
        print(mask)
        for row in mask.keep(grid.whole(), torch.device("cpu")).expand(grid.shape)[0, 0]:
            print("   ", " ".join("●" if allowed else "·" for allowed in row))
