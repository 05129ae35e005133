"""Trains one size; goes on where its checkpoint stands, so it can be stopped at any time.

    python train.py SIZE --minutes 30 --data train.jsonl[:SHARE] … [--seed 1] [--tokens 4096]

The learning rate is constant and falls to zero in the last `--decay` of the minutes. Minutes count training time over
all starts; more of them on a later start, and it goes on from where it was. Curve: HOME/SIZE/curve.jsonl.
"""
import argparse
import json
import pathlib
import signal
import time

import torch
import torch.nn.functional as F

from home import HOME
from muon import optimizers
from qwen3 import Qwen3
from sample import answer_of, write
from texts import batches, load_tokenizer, prompt_text, read_lines

parser = argparse.ArgumentParser()
parser.add_argument("size")
parser.add_argument("--home", default=HOME)
parser.add_argument("--data", nargs="+", default=["data/train.jsonl"])
parser.add_argument("--minutes", type=float, required=True)
parser.add_argument("--decay", type=float, default=0.35)
parser.add_argument("--rate", type=float, default=1.0)
parser.add_argument("--tokens", type=int, default=4096)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--lines", type=int, default=100_000, help="of a file at most; candidates are sampled behind them")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--weight", type=float, default=1, help="in the loss, of what follows an `is`: below or above, yes or no")
parser.add_argument("--every", type=float, default=4, help="minutes between checkpoints")
options = parser.parse_args()


def accuracy(model, tokenizer, lines):
    model.eval()
    texts = write(model, tokenizer, [tokenizer.encode(prompt_text(line["question"])).ids for line in lines])
    right = {}
    for line, text in zip(lines, texts):
        right.setdefault(f"{line['kind']}{line['level']}", []).append(answer_of(text) == line["answer"])
    model.train()
    return {name: round(sum(values) / len(values), 3) for name, values in sorted(right.items())} | {
        "all": round(sum(map(sum, right.values())) / len(lines), 4)}


def main():
    torch.set_num_threads(options.threads)
    home = pathlib.Path(options.home)
    folder = home / options.size
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = load_tokenizer(home / "tokenizer")
    torch.manual_seed(options.seed)
    model = Qwen3(options.size)
    opts = optimizers(model)
    rates = [group["lr"] * options.rate for opt in opts for group in opt.param_groups]
    step, spent = 0, 0.0
    checkpoint = folder / "checkpoint.pt"
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        for opt, state in zip(opts, saved.get("optimizers", [])):  # none in a model that was grown
            opt.load_state_dict(state)
        step, spent = saved["step"], saved["minutes"]
    sources = []
    for item in options.data:
        path, _, share = item.partition(":")
        sources.append((read_lines(home / path, count=options.lines), float(share or 1)))
    tune = read_lines(home / "data/tune.jsonl", count=240)
    print(options.size, sum(p.numel() for p in model.parameters()), "parameters; from step", step, flush=True)
    decides = tokenizer.encode("It is").ids[-1]
    stream = batches(tokenizer, sources, options.tokens, options.seed * 1_000_003 + step)
    begun = last = time.monotonic()
    before, losses, seen = spent, [], 0
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    while spent < options.minutes:
        ids, targets = next(stream)
        left = (1 - spent / options.minutes) / options.decay
        factor = min(1.0, left, (step + 1) / 50)
        for group, rate in zip((g for opt in opts for g in opt.param_groups), rates):
            group["lr"] = rate * factor
        chosen = targets >= 0
        each = F.cross_entropy(model.logits(model(ids)[chosen]), targets[chosen], reduction="none")
        follows = F.pad(targets[:, :-1] == decides, (1, 0))[chosen]
        weight = 1 + (options.weight - 1) * follows
        loss = (each * weight).sum() / weight.sum()
        loss.backward()
        for opt in opts:
            opt.step()
            opt.zero_grad()
        step += 1
        seen += ids.numel()
        losses.append(each.mean().item())
        spent = before + (time.monotonic() - begun) / 60
        if step % 50 == 0:
            print(step, round(spent, 1), round(sum(losses[-50:]) / 50, 4), flush=True)
        if time.monotonic() - last > options.every * 60 or spent >= options.minutes or stopped:
            # The look at the tuning set takes time that is not training.
            paused = time.monotonic()
            save(checkpoint, {"model": model.state_dict(), "optimizers": [opt.state_dict() for opt in opts],
                              "step": step, "minutes": spent})
            line = {"step": step, "minutes": round(spent, 2), "tokens": seen, "loss": round(sum(losses) / len(losses), 4),
                    "tune": accuracy(model, tokenizer, tune), "data": options.data, "seed": options.seed}
            with open(folder / "curve.jsonl", "a") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)
            losses, seen, last = [], 0, time.monotonic()
            begun += last - paused
            if stopped:
                break


def save(path, value):
    torch.save(value, path.with_suffix(".new"))
    path.with_suffix(".new").rename(path)


main()
