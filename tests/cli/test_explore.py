"""`regard explore`: the address it prints, its end by Ctrl-C, and its refusals."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
from cli_runner import refused
from transformers import ViTConfig, ViTModel


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_address_that_it_prints_shows_the_page_until_ctrl_c(host, snake, tmp_path):
    path = snake.save(tmp_path / "snake.safetensors")
    command = [sys.executable, "-m", "regard", "explore", "--trace", path, "--host", host, "--no-browser"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    line = running.stdout.readline()
    address = line.removeprefix("exploring at ").split(" ")[0]
    assert ("?token=" in address) == (host == "0.0.0.0")
    with urllib.request.urlopen(address.replace("0.0.0.0", "127.0.0.1"), timeout=30) as answer:
        assert "The snake is very dangerous" in answer.read().decode()
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=30)
    assert "Traceback" not in errors
    assert running.returncode in (0, 130)


@pytest.fixture
def taken():
    """Yield the number of a port on which a server listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_taken_port_and_a_folder_without_a_translator_are_refused(tmp_path, taken):
    assert refused("explore", "--port", taken) == (
        f"cannot listen on 127.0.0.1 port {taken}: address already in use; give another --port or --host."
    )
    assert refused("explore", "--translator", tmp_path) == (f"{tmp_path} holds no translator; regard train makes one.")
    assert refused("explore", "--translator", tmp_path, "--model", "MiniLM") == (
        "--model and --translator cannot be given together; give one of them."
    )


def test_a_model_that_reads_no_text_is_refused(tmp_path):
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    ViTModel(ViTConfig(**sizes, image_size=8, patch_size=4)).save_pretrained(tmp_path)
    assert refused("explore", "--model", tmp_path, "--no-browser") == (
        "ViTModel reads no text; give it a picture: regard.trace(model, images=[picture]), or regard look --image FILE."
    )


def test_without_transformers_only_a_trace_or_a_translator_is_explored(tmp_path, monkeypatch, taken):
    monkeypatch.setitem(sys.modules, "transformers", None)
    missing = (
        "this needs the package transformers, which is not installed; install it with "
        "pip install 'regard[explore,huggingface]'."
    )
    assert refused("explore", "--port", taken) == missing
    assert refused("explore", "--trace", tmp_path / "t.safetensors", "--model", "MiniLM") == missing
    assert refused("explore", "--translator", tmp_path) == f"{tmp_path} holds no translator; regard train makes one."
    assert refused("explore", "--trace", tmp_path / "t") == f"cannot read {tmp_path / 't'}: no such file or directory."


def test_all_missing_packages_are_named_at_once(monkeypatch):
    for package in ("uvicorn", "starlette", "transformers"):
        monkeypatch.setitem(sys.modules, package, None)
    assert refused("explore") == (
        "this needs the packages uvicorn, starlette and transformers, which are not installed; install them with "
        "pip install 'regard[explore,huggingface]'."
    )
    for verb in (("explore", "--translator", "en-ko"), ("serve", "en-ko")):
        assert refused(*verb) == (
            "this needs the packages uvicorn and starlette, which are not installed; install them with "
            "pip install 'regard[explore,translation]'."
        )


def test_two_searches_for_one_service_are_refused():
    assert refused("serve", "en-ko", "--greedy", "--beam", 3) == "got --greedy and --beam; give one of them."
