"""Writes solutions with a model: greedy or sampled, many at once, keys and values kept."""
import re

import torch

from texts import END

ANSWER = re.compile(r"The answer is (yes|no|\d+)\.$")


def answer_of(text):
    """The marked answer; None where there is none. The project's own extraction agrees (tests/bench)."""
    found = ANSWER.search(text.strip())
    return found[1] if found else None


@torch.no_grad()
def write(model, tokenizer, prompts, temperature=0.0, limit=160, rows=400, seed=0):
    """Texts that follow the prompts (ids), in their order."""
    end = tokenizer.token_to_id(END)
    generator = torch.Generator().manual_seed(seed)
    order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    texts = [""] * len(prompts)
    for first in range(0, len(order), rows):
        part = order[first:first + rows]
        written = continuation(model, [prompts[i] for i in part], (temperature, generator, end, limit))
        for index, ids in zip(part, written):
            texts[index] = tokenizer.decode(ids)
    return texts


def continuation(model, prompts, options):
    """Rows are padded on the left; turning by position is relative, so only the mask knows of it."""
    temperature, generator, end, limit = options
    length = max(map(len, prompts))
    blank = torch.tensor([length - len(prompt) for prompt in prompts])
    ids = torch.tensor([[end] * (length - len(prompt)) + prompt for prompt in prompts])
    seen = torch.arange(length) >= blank[:, None]  # [rows, length]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    own = torch.eye(length, dtype=torch.bool)
    caches = [[] for _ in model.model.layers]
    logits = model.logits(model(ids, caches, mask=((seen[:, None] & causal) | own)[:, None])[:, -1])
    out = [[] for _ in prompts]
    alive = list(range(len(prompts)))
    for step in range(limit):
        if temperature == 0:
            chosen = logits.argmax(-1)
        else:
            chosen = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)[:, 0]
        ids_now = chosen.tolist()
        for at, token in enumerate(ids_now):
            out[alive[at]].append(token)
        going = [at for at in range(len(alive)) if ids_now[at] != end]
        if not going:
            break
        if len(going) < len(alive):
            keep = torch.tensor(going)
            alive, chosen, seen = [alive[at] for at in going], chosen[keep], seen[keep]
            for cache in caches:
                cache[:] = [part[keep] for part in cache]
        seen = torch.cat([seen, torch.ones(len(alive), 1, dtype=torch.bool)], 1)
        logits = model.logits(model(chosen[:, None], caches, length + step, mask=seen[:, None, None])[:, -1])
    return [ids[:ids.index(end)] if end in ids else ids for ids in out]
