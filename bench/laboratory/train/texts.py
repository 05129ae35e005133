"""Examples for training, as token ids: what is asked, and what is to be written."""
import itertools
import json
import random

import torch
from tokenizers import Tokenizer

END = "<|im_end|>"


def load_tokenizer(folder):
    return Tokenizer.from_file(f"{folder}/tokenizer.json")


def prompt_text(content):
    return f"<|im_start|>user\n{content}{END}\n<|im_start|>assistant\n"


def aggregate_text(question, answers):
    """The aggregator's prompt; the preset `laboratory` makes the same."""
    listed = "\n".join(f"{index}. {answer}" for index, answer in enumerate(answers, 1))
    return f"{question}\n\nAnswers:\n{listed}\n\nWhich is right?"


def read_lines(path, first=0, count=None):
    """A JSON Lines file, or `count` lines of it behind the `first`."""
    with open(path) as file:
        return [json.loads(line) for line in itertools.islice(file, first, None if count is None else first + count)]


def encode(tokenizer, lines):
    """Pairs of ids (asked, written) of lines with a question and a solution."""
    asked = tokenizer.encode_batch([prompt_text(line["question"]) for line in lines])
    written = tokenizer.encode_batch([line["solution"] + END for line in lines])
    return [(a.ids, b.ids) for a, b in zip(asked, written)]


def batches(tokenizer, sources, tokens, seed):
    """Batches of some `tokens` for ever: of each (lines, share) by its share, of like lengths, right-padded."""
    chance = random.Random(seed)
    orders = [[] for _ in sources]
    shares = [share for _, share in sources]
    while True:
        drawn = []
        while len(drawn) < 2048:
            which = chance.choices(range(len(sources)), shares)[0]
            if not orders[which]:
                orders[which] = list(range(len(sources[which][0])))
                chance.shuffle(orders[which])
            drawn.append(sources[which][0][orders[which].pop()])
        drawn = encode(tokenizer, drawn)
        drawn.sort(key=lambda pair: len(pair[0]) + len(pair[1]))
        groups, group = [], []
        for pair in drawn:
            longest = len(pair[0]) + len(pair[1])
            if group and (len(group) + 1) * longest > tokens:
                groups.append(group)
                group = []
            group.append(pair)
        chance.shuffle(groups)
        yield from (padded(group) for group in groups)


def padded(group):
    """Ids [rows, length], and targets of the same shape with -100 where nothing is to be learnt."""
    length = max(len(a) + len(b) for a, b in group) - 1
    ids = torch.zeros(len(group), length, dtype=torch.long)
    targets = torch.full((len(group), length), -100)
    for row, (asked, written) in enumerate(group):
        whole = torch.tensor(asked + written)
        ids[row, :len(whole) - 1] = whole[:-1]
        targets[row, len(asked) - 1:len(whole) - 1] = whole[len(asked):]
    return ids, targets
