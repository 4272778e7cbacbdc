"""Classifies texts with PyTorch. The model is loaded once in each process, by `init`, which may take long.

While processes load, `prs submit` shows the phase `loading`. A failure of `init` (no such file, a GPU that is
occupied) is told at once, and `init` is tried again in a new process.
"""

import argparse
import time
from pathlib import Path

import torch

CLASSES = ["short words", "long words"]

model = None
device = None


def init():
    """Loads the network and moves it to the GPU of this process, if it has one."""
    global model, device
    parser = argparse.ArgumentParser()
    parser.add_argument("--loading-seconds", type=float, default=0)
    args, _ = parser.parse_known_args()  # prs has arguments of its own

    # On CPUs each process computes on one core: prs starts as many processes as are useful.
    torch.set_num_threads(1)
    # prs gives each process one GPU, by CUDA_VISIBLE_DEVICES: it is always the first that the process sees.
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    time.sleep(args.loading_seconds)  # stands for some gigabytes of weights
    torch.manual_seed(0)  # stands for torch.load(Path(__file__).parent / "weights.pt", weights_only=True)
    model = torch.nn.Sequential(torch.nn.Linear(256, 32), torch.nn.ReLU(), torch.nn.Linear(32, len(CLASSES)))
    model = model.eval().to(device)


@torch.inference_mode()
def run(mini_batch):
    """Returns "<file>: <class>" for every path of the mini-batch, computed as one batch."""
    pages = [Path(path) for path in mini_batch]
    batch = torch.stack([frequencies(page.read_bytes()) for page in pages]).to(device)
    found = model(batch).argmax(dim=1).tolist()
    return [f"{page.name}: {CLASSES[number]}" for page, number in zip(pages, found)]


def frequencies(data):
    """How often each of the 256 bytes is in `data`, as shares of 1."""
    counts = torch.bincount(torch.frombuffer(bytearray(data), dtype=torch.uint8).long(), minlength=256)
    return counts / max(len(data), 1)
