"""Makes a larger size of a smaller one's checkpoint that calculates the same, to be trained on: `python grow.py s l`.

New layers write nothing at first, new heads and neurons neither, and nobody reads the new width: their outgoing (or,
for the width, reading) weights are zero and the others random. Both count of query heads to a key head must be equal.
"""
import pathlib
import sys

import torch

from home import HOME
from qwen3 import SIZES, Qwen3


def grown(small, old, large, new):
    """The large model's weights, from the small one's `old` and fresh ones `new`."""
    ratio = (SIZES[small]["hidden"] / SIZES[large]["hidden"]) ** 0.5
    extra = SIZES[large]["layers"] - SIZES[small]["layers"]
    first = SIZES[small]["layers"] - 1  # the new layers stand before the last one
    result = {}
    for name, fresh in new.items():
        parts = name.split(".")
        if parts[1] == "layers":
            layer = int(parts[2])
            if first <= layer < first + extra:
                result[name] = torch.zeros_like(fresh) if "o_proj" in name or "down_proj" in name else fresh
                continue
            parts[2] = str(layer if layer < first else layer - extra)
        source = old[".".join(parts)]
        if name.endswith("norm.weight") and not name.endswith(("q_norm.weight", "k_norm.weight")) or "layernorm" in name:
            result[name] = fresh.clone()
            result[name][:len(source)] = source * ratio  # the mean square is over more places, the new ones empty
        elif fresh.ndim == 1:
            result[name] = source
        else:
            wide = fresh.clone()
            wide[:, source.shape[1]:] = 0  # reads of the new width; columns of new heads and neurons
            if "embed_tokens" in name:
                wide.zero_()
            wide[:source.shape[0], :source.shape[1]] = source
            result[name] = wide
    return result


if __name__ == "__main__":
    small, large = sys.argv[1:3]
    home = pathlib.Path(HOME)
    torch.manual_seed(1)
    a, b = Qwen3(small), Qwen3(large)
    a.load_state_dict(torch.load(home / small / "checkpoint.pt")["model"])
    b.load_state_dict(grown(small, a.state_dict(), large, b.state_dict()))
    ids = torch.randint(0, 700, (2, 40))
    with torch.no_grad():
        print("differs by at most", (a.logits(a(ids)) - b.logits(b(ids))).abs().max().item())
    (home / large).mkdir(exist_ok=True)
    torch.save({"model": b.state_dict(), "step": 0, "minutes": 0.0}, home / large / "checkpoint.pt")
