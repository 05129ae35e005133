"""Samples solutions of training questions with trained models, for aggregators and the embedding model to learn from.

    python candidates.py OUT --models s:2 m:2 l:2 --from 200000 --count 3000 [--seed 1]

A line of OUT: the question with `candidates`, each {"model", "temperature", "text", "right"}. Appends to OUT.
"""
import argparse
import json
import pathlib
import random

import torch

from home import HOME
from qwen3 import Qwen3
from sample import answer_of, write
from texts import load_tokenizer, prompt_text, read_lines

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--home", default=HOME)
parser.add_argument("--models", nargs="+", default=["s:2", "m:2", "l:2"], help="SIZE:SAMPLES")
parser.add_argument("--data", default="data/train.jsonl")
parser.add_argument("--from", dest="first", type=int, default=200_000)
parser.add_argument("--count", type=int, default=3000)
parser.add_argument("--seed", type=int, default=1)
options = parser.parse_args()


def main():
    torch.set_num_threads(1)
    home = pathlib.Path(options.home)
    tokenizer = load_tokenizer(home / "tokenizer")
    lines = read_lines(home / options.data, options.first, options.count)
    prompts = [tokenizer.encode(prompt_text(line["question"])).ids for line in lines]
    chance = random.Random(options.seed)
    for line in lines:
        line["candidates"] = []
    for item in options.models:
        size, _, samples = item.partition(":")
        model = Qwen3(size)
        model.load_state_dict(torch.load(home / size / "checkpoint.pt")["model"])
        model.eval()
        for number in range(int(samples or 1)):
            temperature = round(chance.uniform(0.7, 1.0), 2)
            texts = write(model, tokenizer, prompts, temperature, seed=options.seed * 1000 + number)
            for line, text in zip(lines, texts):
                line["candidates"].append({"model": size, "temperature": temperature, "text": text.strip(),
                                           "right": answer_of(text) == line["answer"]})
            rate = sum(line["candidates"][-1]["right"] for line in lines) / len(lines)
            print(size, temperature, round(rate, 3), flush=True)
    with open(home / options.out, "a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


main()
