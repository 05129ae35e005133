"""Trains the embedding model: solutions of one question with the same answer near each other, all others apart.

    python embed.py CANDIDATES --tune CANDIDATES --minutes 6 [--from s]

Of Qwen3-Embedding's form: the text and <|endoftext|>, the last token's hidden state, length 1. Starts from a proposer's
weights. Curve: HOME/embedding/curve.jsonl, with the area under the ROC curve of the cosine for "same answer" among
solutions of one question.
"""
import argparse
import json
import pathlib
import random
import time

import torch
import torch.nn.functional as F

from home import HOME
from muon import optimizers
from qwen3 import Qwen3
from sample import answer_of
from texts import load_tokenizer, read_lines

parser = argparse.ArgumentParser()
parser.add_argument("candidates", nargs="+")
parser.add_argument("--tune", required=True)
parser.add_argument("--home", default=HOME)
parser.add_argument("--from", dest="start", default="s")
parser.add_argument("--minutes", type=float, default=6)
parser.add_argument("--questions", type=int, default=12, help="in a batch")
parser.add_argument("--temperature", type=float, default=0.07)
parser.add_argument("--seed", type=int, default=1)
options = parser.parse_args()
PAD = "<|endoftext|>"


def vectors(model, tokenizer, texts):
    end = tokenizer.token_to_id(PAD)
    ids = [encoded.ids + [end] for encoded in tokenizer.encode_batch(texts)]
    last = torch.tensor([len(one) - 1 for one in ids])
    padded = torch.tensor([one + [end] * (int(last.max()) + 1 - len(one)) for one in ids])
    return F.normalize(model(padded)[torch.arange(len(ids)), last], dim=-1)


def groups_of(home, paths):
    """Of each question the different texts, with their answers."""
    groups = []
    for path in paths:
        for line in read_lines(home / path):
            texts = dict.fromkeys([line["solution"], *(c["text"] for c in line["candidates"])])
            pairs = [(text, answer_of(text)) for text in texts if answer_of(text) is not None]
            if len({answer for _, answer in pairs}) > 1:
                groups.append(pairs)
    return groups


def loss_of(similar, question, answer):
    """Supervised contrastive loss; texts without a partner only push."""
    own = torch.eye(len(question), dtype=torch.bool)
    same = (question[:, None] == question) & (answer[:, None] == answer) & ~own
    logits = (similar / options.temperature).masked_fill(own, -1e4)
    chances = logits - logits.logsumexp(-1, keepdim=True)
    has = same.any(-1)
    return -(chances.masked_fill(~same, 0).sum(-1)[has] / same.sum(-1)[has]).mean()


@torch.no_grad()
def area(model, tokenizer, groups):
    """Area under the ROC curve of the cosine as a sign of the same answer, pairs of one question."""
    same, other = [], []
    for group in groups:
        found = vectors(model, tokenizer, [text for text, _ in group])
        similar = found @ found.T
        for i in range(len(group)):
            for j in range(i):
                (same if group[i][1] == group[j][1] else other).append(similar[i, j].item())
    ranks = torch.tensor(same + other).argsort().argsort().double() + 1
    n, m = len(same), len(other)
    value = (ranks[:n].sum().item() - n * (n + 1) / 2) / (n * m)
    return {"area": round(value, 4), "same": round(sum(same) / n, 3), "other": round(sum(other) / m, 3), "pairs": n + m}


def main():
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    home = pathlib.Path(options.home)
    folder = home / "embedding"
    folder.mkdir(exist_ok=True)
    tokenizer = load_tokenizer(home / "tokenizer")
    model = Qwen3("embedding")
    model.load_state_dict(torch.load(home / options.start / "checkpoint.pt")["model"])
    opts = optimizers(model)
    rates = [group["lr"] * 0.3 for opt in opts for group in opt.param_groups]
    groups = groups_of(home, options.candidates)
    tune = groups_of(home, [options.tune])[:300]
    print(len(groups), "questions; before", area(model, tokenizer, tune), flush=True)
    chance = random.Random(options.seed)
    begun, step, losses = time.monotonic(), 0, []
    while (spent := (time.monotonic() - begun) / 60) < options.minutes:
        left = min(1.0, (1 - spent / options.minutes) / 0.4)
        for group, rate in zip((g for opt in opts for g in opt.param_groups), rates):
            group["lr"] = rate * left
        drawn = [(number, *pair) for number in range(options.questions)
                 for pair in (lambda g: chance.sample(g, min(6, len(g))))(chance.choice(groups))]
        codes = {}
        answers = torch.tensor([codes.setdefault(answer, len(codes)) for _, _, answer in drawn])
        found = vectors(model, tokenizer, [text for _, text, _ in drawn])
        pairs = [(number, answer) for number, _, answer in drawn]
        if len(set(pairs)) == len(pairs):
            continue  # nothing to pull together
        loss = loss_of(found @ found.T, torch.tensor([number for number, _, _ in drawn]), answers)
        loss.backward()
        for opt in opts:
            opt.step()
            opt.zero_grad()
        losses.append(loss.item())
        step += 1
        if step % 100 == 0:
            report(folder, {"step": step, "minutes": round(spent, 2), "loss": round(sum(losses) / len(losses), 4)})
            losses = []
    report(folder, {"step": step, "tune": area(model, tokenizer, tune), "seed": options.seed, "from": options.start})
    torch.save({"model": model.state_dict(), "step": step}, folder / "checkpoint.pt")


def report(folder, line):
    with open(folder / "curve.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")
    print(json.dumps(line), flush=True)


main()
