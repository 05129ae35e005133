#!/usr/bin/env python3
"""Write greedy.json into a model's folder: what torch answers in 32 bits, taking the likeliest token each time.

    python real_model_greedy.py MODEL_DIR
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

MAX_TOKENS = 64
CONVERSATIONS = [
    [{"role": "user", "content": "What is the capital of France?"}],
    [{"role": "user", "content": "What is 2+2?"}],
    [{"role": "user", "content": "Why is the sky blue?"}],
    [{"role": "user", "content": "Explain in two sentences what a computer does."}],
    [{"role": "user", "content": "Write a Python function that returns the sum of a list of numbers."}],
    [{"role": "user", "content": "Name three animals that live in the sea."}],
    [{"role": "system", "content": "You answer in one short sentence."}, {"role": "user", "content": "What is rain?"}],
    [
        {"role": "user", "content": "My name is Anna and I was born in 1985."},
        {"role": "assistant", "content": "Nice to meet you, Anna!"},
        {"role": "user", "content": "Write a short poem about me."},
    ],
]


@torch.inference_mode()
def answer(model, tokenizer, messages: list[dict]) -> dict:
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    prompt_ids = tokenizer.encode(prompt, add_special_tokens=False)
    ids, logprobs, margins = [], [], []
    past = None
    following = torch.tensor([prompt_ids])
    while len(ids) < MAX_TOKENS:
        step = model(following, past_key_values=past, use_cache=True)
        past = step.past_key_values
        likeliest = torch.log_softmax(step.logits[0, -1].double(), -1).topk(2)
        ids.append(int(likeliest.indices[0]))
        logprobs.append(round(float(likeliest.values[0]), 6))
        margins.append(float(likeliest.values[0] - likeliest.values[1]))
        if ids[-1] == model.config.eos_token_id:
            break
        following = torch.tensor([[ids[-1]]])
    return {
        "messages": messages,
        "prompt_ids": prompt_ids,
        "ids": ids,
        "logprobs": logprobs,
        # The closest decision: rounding differs between programs, and may turn one that is closer than 0.001 or so.
        "least_margin": round(min(margins), 6),
        "text": tokenizer.decode(ids, skip_special_tokens=True),
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    cases = [answer(model, tokenizer, messages) for messages in CONVERSATIONS]
    text = json.dumps({"dtype": "float32", "torch": torch.__version__, "cases": cases}, ensure_ascii=False, indent=1)
    (folder / "greedy.json").write_text(text + "\n", encoding="utf-8")
