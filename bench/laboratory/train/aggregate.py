"""Makes the aggregator's examples of sampled candidates: a question, 2 to 9 of its solutions (mostly 3), the gold one.

    python aggregate.py CANDIDATES… --out data/aggregate.jsonl [--each 3] [--slips 20000] [--seed 1]

Where all candidates agree there is little to learn: most of those are left out. `--slips` adds examples whose wrong
candidates are made of the right solution (slips.py).
"""
import argparse
import json
import pathlib
import random

from home import HOME
from sample import answer_of
from slips import slipped
from texts import aggregate_text, read_lines

parser = argparse.ArgumentParser()
parser.add_argument("candidates", nargs="+")
parser.add_argument("--home", default=HOME)
parser.add_argument("--out", default="data/aggregate.jsonl")
parser.add_argument("--each", type=int, default=3, help="examples of a question")
parser.add_argument("--slips", type=int, default=0, help="examples with made mistakes")
parser.add_argument("--from", dest="first", type=int, default=100_000, help="first question for --slips")
parser.add_argument("--data", default="data/train.jsonl")
parser.add_argument("--seed", type=int, default=1)
options = parser.parse_args()


def main():
    home = pathlib.Path(options.home)
    chance = random.Random(options.seed)
    examples = []
    for path in options.candidates:
        for line in read_lines(home / path):
            examples += [example for _ in range(options.each) if (example := one(line, chance)) is not None]
    for line in read_lines(home / options.data, options.first, options.slips):
        examples += [example] if (example := one(made(line, chance), chance)) is not None else []
    chance.shuffle(examples)
    with open(home / options.out, "w") as file:
        file.writelines(json.dumps(example) + "\n" for example in examples)
    print(len(examples), "examples; with a right candidate:", sum(e["any_right"] for e in examples) / len(examples))


def made(line, chance):
    """The line with nine candidates, of which a share drawn at random is right; wrong ones are often wrong alike."""
    share, alike, usual = chance.uniform(0.1, 0.9), chance.random() < 0.5, slipped(line["solution"], chance)
    candidates = []
    for _ in range(9):
        if chance.random() < share:
            text = line["solution"]
        else:
            text = usual if alike and chance.random() < 0.6 else slipped(line["solution"], chance)
        candidates.append({"model": chance.choice("sml"), "text": text, "right": answer_of(text) == line["answer"]})
    return line | {"candidates": candidates}


def one(line, chance):
    texts = line["candidates"]
    count = 3 if chance.random() < 0.7 else chance.choice([2, 4, 5, 6, 7, 8, 9])
    chosen = chance.sample(texts, min(count, len(texts)))
    if chance.random() < 0.5:  # as the tree has them: small models first
        chosen.sort(key=lambda text: "sml".index(text["model"]))
    answers = {answer_of(text["text"]) for text in chosen}
    if len(answers) == 1 and chance.random() < 0.8:
        return None
    question = aggregate_text(line["question"], [text["text"] for text in chosen])
    return {"question": question, "solution": line["solution"], "answer": line["answer"], "kind": line["kind"],
            "level": line["level"], "any_right": any(text["right"] for text in chosen)}


main()
