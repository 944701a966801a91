"""Tests of random noise computed from a position: against Python's integers, published numbers, the distribution."""

import math

import pytest
import torch
from oracle import near
from refusals import refusal

from regard import GumbelSoftmax
from regard.attention.grid.grid import Grid, Tile
from regard.attention.normalise.noise import GOLDEN, gumbel, mix

GRID = Grid(2, 3, 5, 7)


def noise_of(seed: int, tile: Tile) -> torch.Tensor:
    return gumbel(seed, tile, torch.zeros(tile.shape, dtype=torch.float64))


def mixed(state: int) -> int:
    state %= 2**64
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
    return state ^ state >> 31


def by_hand(seed: int, *place: int) -> float:
    state = mixed(seed)
    for position in place:
        state = mixed(state + position * 0x9E3779B97F4A7C15)
    return -math.log(-math.log(((state >> 12) + 0.5) / 2**52))


def test_mix_gives_the_published_sequence_of_splitmix64():
    """Rosetta Code, Pseudo-random numbers/Splitmix64: the first five numbers from seed 1234567."""
    steps = 1234567 + torch.arange(1, 6) * GOLDEN
    assert [int(bits) % 2**64 for bits in mix(steps)] == [
        6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821,
    ]  # fmt: skip


@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1])
def test_noise_is_that_of_splitmix64_in_pythons_integers(seed):
    found = noise_of(seed, GRID.whole())
    for place in torch.cartesian_prod(*map(torch.arange, GRID.shape)).tolist():
        near(found[tuple(place)], torch.tensor(by_hand(seed, *place), dtype=torch.float64))


def test_the_noise_of_a_tile_is_that_part_of_the_whole():
    whole = noise_of(7, GRID.whole())
    part = GRID.whole().part(batch=range(1, 2), heads=torch.tensor([2, 0]), queries=range(1, 5, 2))
    near(noise_of(7, part), whole[1:2, [2, 0], 1:5:2])


def test_noise_has_the_gumbel_distribution_and_neighbours_are_independent():
    """Limits: five standard errors of each figure for independent draws."""
    noise = noise_of(3, Grid(2, 3, 167, 211).whole())
    n = noise.numel()
    uniform = torch.exp(-torch.exp(-noise))
    cells = torch.histc(uniform.flatten(), 64, 0, 1)
    chi_square = float(((cells - n / 64) ** 2 / (n / 64)).sum())
    assert abs(chi_square - 63) < 5 * math.sqrt(2 * 63)
    assert abs(float(noise.mean()) - 0.5772156649) < 5 * math.pi / math.sqrt(6 * n)
    other = torch.exp(-torch.exp(-noise_of(4, Grid(2, 3, 167, 211).whole())))
    centred = (uniform - 0.5) * math.sqrt(12)
    pairs = [centred * (other - 0.5) * math.sqrt(12)]
    pairs += [centred.narrow(axis, 1, size - 1) * centred.narrow(axis, 0, size - 1)
              for axis, size in enumerate(noise.shape)]  # fmt: skip
    for pair in pairs:
        assert abs(float(pair.mean())) < 5 / math.sqrt(pair.numel())


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("seed", [-1, 2**63, 0.5, True, None])
def test_a_seed_out_of_range_is_refused(seed):
    assert refusal(ValueError, lambda: GumbelSoftmax(seed=seed)) == (
        f"seed={seed!r} must be a whole number from 0 to 2**63 - 1, such as the training step."
    )
