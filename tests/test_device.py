"""Tests of choosing a device by name: cpu, cuda, mps, and names that are refused."""

import pytest
import torch
from refusals import refusal

from regard.device import device_named
from regard.errors import InputError

OTHERS = torch.cuda.is_available() or torch.backends.mps.is_available()


def test_cpu_is_a_device_by_name_and_number():
    assert device_named("cpu") == device_named(torch.device("cpu")) == torch.device("cpu")
    assert device_named("cpu:0") == torch.device("cpu", 0)


@pytest.mark.skipif(OTHERS, reason="PyTorch finds a GPU here, which is faster")
def test_without_a_gpu_the_default_device_is_the_cpu():
    assert device_named(None) == torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cudo", "there is no device 'cudo'; nearest: cuda; give cpu, cuda or mps."),
        ("gpu:1", "there is no device 'gpu:1'; nearest: cpu; give cpu, cuda or mps."),
        ("cpu:first", "'cpu:first' is not a device; give a number after cpu:, such as cpu:0."),
        ("cpu:1", "there is no device 'cpu:1'; PyTorch finds cpu:0 on this machine."),
        pytest.param(
            "cuda:0",
            "PyTorch finds no cuda on this machine; it finds cpu.",
            marks=pytest.mark.skipif(OTHERS, reason="PyTorch finds a GPU here"),
        ),
    ],
)
def test_devices_that_do_not_exist_are_refused(name, message):
    assert refusal(InputError, device_named, name) == message


def test_a_device_number_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device_named("cuda:1") == torch.device("cuda", 1)
    assert device_named("cuda") == torch.device("cuda")
    assert refusal(InputError, device_named, "cuda:9") == (
        "there is no device 'cuda:9'; PyTorch finds cuda:0 to cuda:1 on this machine."
    )
