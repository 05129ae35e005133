"""Writes solutions with a model: greedy or sampled, prompts of one length together, keys and values kept."""
import re

import torch

from texts import END

ANSWER = re.compile(r"The answer is ([A-D]|\d+)\.$")


def answer_of(text):
    """The marked answer; None where there is none. The project's own extraction agrees (tests/bench)."""
    found = ANSWER.search(text.strip())
    return found[1] if found else None


@torch.no_grad()
def write(model, tokenizer, prompts, temperature=0.0, limit=160, rows=256, seed=0):
    """Texts that follow the prompts (ids), in their order."""
    end = tokenizer.token_to_id(END)
    generator = torch.Generator().manual_seed(seed)
    by_length = {}
    for index, ids in enumerate(prompts):
        by_length.setdefault(len(ids), []).append(index)
    texts = [""] * len(prompts)
    for length in sorted(by_length):
        same = by_length[length]
        for first in range(0, len(same), rows):
            part = same[first:first + rows]
            written = continuation(model, torch.tensor([prompts[i] for i in part]), (temperature, generator, end, limit))
            for index, ids in zip(part, written):
                texts[index] = tokenizer.decode(ids)
    return texts


def continuation(model, ids, options):
    temperature, generator, end, limit = options
    rows, length = ids.shape
    caches = [[] for _ in model.model.layers]
    logits = model.logits(model(ids, caches)[:, -1])
    out = [[] for _ in range(rows)]
    alive = list(range(rows))
    for step in range(limit):
        if temperature == 0:
            chosen = logits.argmax(-1)
        else:
            chosen = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)[:, 0]
        ids_now = chosen.tolist()
        going = [at for at, token in enumerate(ids_now) if token != end]
        for at in going:
            out[alive[at]].append(ids_now[at])
        if not going:
            break
        if len(going) < 0.7 * len(alive):  # rows that have ended are dropped now and then
            alive = [alive[at] for at in going]
            keep = torch.tensor(going)
            chosen = chosen[keep]
            for cache in caches:
                cache[:] = [part[keep] for part in cache]
        elif len(going) < len(alive):
            for at in set(range(len(alive))) - set(going):
                out[alive[at]].append(end)
        logits = model.logits(model(chosen[:, None], caches, length + step)[:, -1])
    return [ids[:ids.index(end)] if end in ids else ids for ids in out]
