"""Writes a checkpoint as a Hugging Face folder: float16 safetensors, configuration, tokenizer, chat template.

    python export.py SIZE OUT [--home HOME]
"""
import argparse
import json
import pathlib

import torch
from safetensors.torch import save_file
from tokenizers import processors

from home import HOME
from qwen3 import config
from texts import END, load_tokenizer
from tokenizer import save

PAD = "<|endoftext|>"


def export(home, size, out):
    out.mkdir(parents=True, exist_ok=True)
    weights = torch.load(home / size / "checkpoint.pt")["model"]
    tokenizer = load_tokenizer(home / "tokenizer")
    embeds = size == "embedding"
    end = PAD if embeds else END
    prefix = "model." if embeds else ""  # Qwen3-Embedding's weights stand without the head's prefix
    save_file({name.removeprefix(prefix): weight.half().contiguous() for name, weight in weights.items()},
              out / "model.safetensors", metadata={"format": "pt"})
    architecture = "Qwen3Model" if embeds else "Qwen3ForCausalLM"
    write(out / "config.json", config(size, tokenizer.token_to_id(end), architecture))
    if embeds:
        # Every text ends with the token whose hidden state is the vector, as Qwen3-Embedding's does.
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"$A {PAD}", pair=f"$A {PAD} $B {PAD}", special_tokens=[(PAD, tokenizer.token_to_id(PAD))])
    else:
        write(out / "generation_config.json", {
            "do_sample": False, "eos_token_id": [tokenizer.token_to_id(END), tokenizer.token_to_id(PAD)],
            "pad_token_id": tokenizer.token_to_id(PAD)})
    save(tokenizer, out, end)


def write(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("size")
    parser.add_argument("out")
    parser.add_argument("--home", default=HOME)
    options = parser.parse_args()
    export(pathlib.Path(options.home), options.size, pathlib.Path(options.out))
