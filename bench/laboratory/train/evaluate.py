"""Measures exported models on the test set: greedy, self-consistency, and aggregation, paired; writes JSON.

    python evaluate.py MODELS OUT.json [--count 1000] [--samples 5]

MODELS holds the folders s, m, l. Weights are those of the files, rounded to float16, calculated in float32.
"""
import argparse
import collections
import json
import math
import pathlib

import torch
from safetensors.torch import load_file

from home import HOME
from qwen3 import Qwen3
from sample import answer_of, write
from texts import aggregate_text, load_tokenizer, prompt_text, read_lines

parser = argparse.ArgumentParser()
parser.add_argument("models")
parser.add_argument("out")
parser.add_argument("--home", default=HOME)
parser.add_argument("--data", default="data/test.jsonl")
parser.add_argument("--count", type=int, default=1000)
parser.add_argument("--samples", type=int, default=5)
parser.add_argument("--aggregators", nargs="+", default=["l"])
parser.add_argument("--threads", type=int, default=1)
options = parser.parse_args()
SIZES = ["s", "m", "l"]


def wilson(right, count, z=1.96):
    p, n = right / count, count
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return {"right": right, "of": n, "rate": round(p, 4),
            "low": round((middle - half) / (1 + z * z / n), 4), "high": round((middle + half) / (1 + z * z / n), 4)}


def mcnemar(first, second):
    """Exact two-sided p that the questions which one alone has right fall evenly to both."""
    only_first = sum(a and not b for a, b in zip(first, second))
    only_second = sum(b and not a for a, b in zip(first, second))
    n, k = only_first + only_second, min(only_first, only_second)
    p = min(1.0, 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2 ** n) if n else 1.0
    return {"only_first": only_first, "only_second": only_second, "p": p}


class Laboratory:
    def __init__(self, folder, home):
        self.tokenizer = load_tokenizer(folder / "s")
        self.lines = read_lines(home / options.data, count=options.count)
        self.models = {}
        for size in SIZES:
            model = Qwen3(size)
            model.load_state_dict({name: weight.float() for name, weight in load_file(folder / size / "model.safetensors").items()})
            self.models[size] = model.eval()

    def write(self, size, contents, temperature=0.0, seed=0):
        prompts = [self.tokenizer.encode(prompt_text(content)).ids for content in contents]
        return write(self.models[size], self.tokenizer, prompts, temperature, seed=seed)

    def right(self, answers):
        return [answer == line["answer"] for answer, line in zip(answers, self.lines)]

    def rates(self, right):
        groups = collections.defaultdict(list)
        for line, value in zip(self.lines, right):
            for name in ("all", line["kind"], f"{line['kind']} {line['level']}"):
                groups[name].append(value)
        return {name: wilson(sum(values), len(values)) for name, values in sorted(groups.items())}


def majority(answers):
    """The most frequent answer, the first of equals."""
    counts = collections.Counter(answer for answer in answers if answer is not None)
    return counts.most_common(1)[0][0] if counts else None


def main():
    torch.set_num_threads(options.threads)
    lab = Laboratory(pathlib.Path(options.models), pathlib.Path(options.home))
    questions = [line["question"] for line in lab.lines]
    result = {"questions": len(questions), "data": options.data, "greedy": {}, "tokens": {}, "self_consistency": {}, "aggregator": {}}
    texts, right = {}, {}
    for size in SIZES:
        texts[size] = lab.write(size, questions)
        right[size] = lab.right([answer_of(text) for text in texts[size]])
        result["greedy"][size] = lab.rates(right[size])
        result["tokens"][size] = round(sum(len(e.ids) for e in lab.tokenizer.encode_batch(texts[size])) / len(questions), 1)
        print(size, result["greedy"][size]["all"], flush=True)
    best = max(SIZES, key=lambda size: sum(right[size]))
    sampled = {size: [lab.write(size, questions, 0.7, seed) for seed in range(options.samples if size == best else 1)] for size in SIZES}
    samples = list(zip(*sampled[best]))
    voted = lab.right([majority([answer_of(text) for text in five]) for five in samples])
    result["self_consistency"] = {"model": best, "temperature": 0.7, "samples": options.samples,
                                  "one_sample": lab.rates(lab.right([answer_of(five[0]) for five in samples]))["all"],
                                  "majority": lab.rates(voted)["all"], "against_greedy": mcnemar(voted, right[best])}
    vote_of_three = lab.right([majority([answer_of(texts[size][i]) for size in reversed(SIZES)]) for i in range(len(questions))])
    any_right = [any(right[size][i] for size in SIZES) for i in range(len(questions))]
    result["majority_of_three_greedy"] = {**wilson(sum(vote_of_three), len(questions)), "against_best": mcnemar(vote_of_three, right[best])}
    result["any_of_three_greedy"] = wilson(sum(any_right), len(questions))
    for name, sources in {"greedy": texts, "sampled": {size: sampled[size][0] for size in SIZES}}.items():
        contents = [aggregate_text(question, [sources[size][i].strip() for size in SIZES]) for i, question in enumerate(questions)]
        sources_right = {size: lab.right([answer_of(text) for text in sources[size]]) for size in SIZES}
        best_here = max(SIZES, key=lambda size: sum(sources_right[size]))
        for size in options.aggregators:
            chosen = lab.right([answer_of(text) for text in lab.write(size, contents)])
            result["aggregator"][f"{size} over {name}"] = {
                "rates": lab.rates(chosen), "best_proposer": best_here,
                "best_rate": wilson(sum(sources_right[best_here]), len(questions)),
                "against_best": mcnemar(chosen, sources_right[best_here]),
                "against_best_greedy": mcnemar(chosen, right[best])}
            print(size, name, result["aggregator"][f"{size} over {name}"]["rates"]["all"], result["aggregator"][f"{size} over {name}"]["against_best"], flush=True)
    pathlib.Path(options.out).write_text(json.dumps(result, indent=2) + "\n")


main()
