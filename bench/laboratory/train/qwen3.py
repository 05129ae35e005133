"""The Qwen3 architecture in plain torch, with transformers' parameter names: small, quick to train on a CPU."""
import torch
import torch.nn.functional as F
from torch import nn

SIZES = {
    "s": dict(hidden=96, layers=3, heads=4, kv_heads=2, ffn=256),
    "m": dict(hidden=96, layers=4, heads=4, kv_heads=2, ffn=288),
    "l": dict(hidden=128, layers=7, heads=4, kv_heads=2, ffn=384),
    "embedding": dict(hidden=96, layers=3, heads=4, kv_heads=2, ffn=256),
}
HEAD = 32
VOCABULARY = 768
THETA = 10_000.0
EPS = 1e-6
POSITIONS = 4096


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * self.weight


class Attention(nn.Module):
    def __init__(self, hidden, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        self.q_proj = nn.Linear(hidden, heads * HEAD, bias=False)
        self.k_proj = nn.Linear(hidden, kv_heads * HEAD, bias=False)
        self.v_proj = nn.Linear(hidden, kv_heads * HEAD, bias=False)
        self.o_proj = nn.Linear(heads * HEAD, hidden, bias=False)
        self.q_norm, self.k_norm = Norm(HEAD), Norm(HEAD)

    def forward(self, x, turn, cache, mask):
        rows, length, _ = x.shape
        q = rotate(self.q_norm(self.q_proj(x).view(rows, length, self.heads, HEAD)), turn).transpose(1, 2)
        k = rotate(self.k_norm(self.k_proj(x).view(rows, length, self.kv_heads, HEAD)), turn).transpose(1, 2)
        v = self.v_proj(x).view(rows, length, self.kv_heads, HEAD).transpose(1, 2)
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
            cache[:] = [k, v]
        groups = self.heads // self.kv_heads
        if groups > 1:
            k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None and length > 1)
        return self.o_proj(y.transpose(1, 2).reshape(rows, length, -1))


class Mlp(nn.Module):
    def __init__(self, hidden, ffn):
        super().__init__()
        self.gate_proj = nn.Linear(hidden, ffn, bias=False)
        self.up_proj = nn.Linear(hidden, ffn, bias=False)
        self.down_proj = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.self_attn = Attention(size["hidden"], size["heads"], size["kv_heads"])
        self.mlp = Mlp(size["hidden"], size["ffn"])
        self.input_layernorm, self.post_attention_layernorm = Norm(size["hidden"]), Norm(size["hidden"])

    def forward(self, x, turn, cache, mask):
        x = x + self.self_attn(self.input_layernorm(x), turn, cache, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, size["hidden"])
        self.layers = nn.ModuleList(Layer(size) for _ in range(size["layers"]))
        self.norm = Norm(size["hidden"])


class Qwen3(nn.Module):
    """`forward` gives hidden states [rows, length, hidden]; `mask` (true where seen) is causal by default; `logits` scores them with the tied embedding."""

    def __init__(self, size):
        super().__init__()
        self.size = SIZES[size]
        self.model = Body(self.size)
        angles = torch.arange(POSITIONS)[:, None] * THETA ** (-torch.arange(0, HEAD, 2) / HEAD)
        angles = torch.cat([angles, angles], -1)[:, None, :]
        self.register_buffer("turn", torch.stack([angles.cos(), angles.sin()]), persistent=False)
        for name, weight in self.named_parameters():
            if "q_norm" in name or "k_norm" in name:
                nn.init.constant_(weight, 1.5)  # heads of 32 begin too blunt to copy names otherwise
            elif "embed_tokens" in name:
                nn.init.normal_(weight, std=0.02)
            elif weight.ndim == 2:
                last = "o_proj" in name or "down_proj" in name
                nn.init.normal_(weight, std=0.7 * weight.shape[1] ** -0.5 * ((2 * self.size["layers"]) ** -0.5 if last else 1))

    def forward(self, ids, caches=None, start=0, mask=None):
        turn = self.turn[:, start:start + ids.shape[1]]
        x = self.model.embed_tokens(ids)
        for index, layer in enumerate(self.model.layers):
            x = layer(x, turn, None if caches is None else caches[index], mask)
        return self.model.norm(x)

    def logits(self, hidden):
        return hidden @ self.model.embed_tokens.weight.T


def rotate(x, turn):
    half = torch.cat([-x[..., HEAD // 2:], x[..., :HEAD // 2]], -1)
    return x * turn[0] + half * turn[1]


def config(size, end, architecture="Qwen3ForCausalLM"):
    """transformers' config.json of a size."""
    s = SIZES[size]
    return {
        "architectures": [architecture], "model_type": "qwen3", "hidden_size": s["hidden"],
        "num_hidden_layers": s["layers"], "num_attention_heads": s["heads"], "num_key_value_heads": s["kv_heads"],
        "head_dim": HEAD, "intermediate_size": s["ffn"], "vocab_size": VOCABULARY, "max_position_embeddings": POSITIONS,
        "rope_theta": THETA, "rope_scaling": None, "rms_norm_eps": EPS, "hidden_act": "silu", "attention_bias": False,
        "attention_dropout": 0.0, "tie_word_embeddings": True, "use_sliding_window": False, "sliding_window": None,
        "max_window_layers": s["layers"], "initializer_range": 0.02, "use_cache": True, "bos_token_id": None,
        "eos_token_id": end, "pad_token_id": VOCABULARY - 3, "torch_dtype": "float16",
    }
