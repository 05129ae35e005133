"""Trains the laboratory's byte-level BPE tokenizer on its own texts and writes it as a Hugging Face folder.

    python tokenizer.py DATA OUT
"""
import json
import pathlib
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

VOCABULARY = 768
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")  # Qwen's: every digit on its own
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = ("{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
            "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
PROMPT_WORDS = ["user\nassistant\nsystem\n", "Answers:\n1. \n2. \n3. \n\nWhich is right?"] * 2000


def texts(data):
    for number, line in enumerate(open(data / "train.jsonl")):
        if number == 40_000:
            break
        item = json.loads(line)
        yield f"{item['question']}\n\n{item['solution']}"
    yield from PROMPT_WORDS


def train(data):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY - len(SPECIAL), initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts(data), trainer)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in SPECIAL])
    return tokenizer


def save(tokenizer, folder, end="<|im_end|>"):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "Qwen2Tokenizer", "add_bos_token": False, "add_prefix_space": False, "bos_token": None,
        "eos_token": end, "pad_token": "<|endoftext|>", "unk_token": None, "model_max_length": 4096,
        "clean_up_tokenization_spaces": False, "errors": "replace", "split_special_tokens": False,
        "added_tokens_decoder": {
            str(tokenizer.token_to_id(text)): {"content": text, "lstrip": False, "normalized": False, "rstrip": False,
                                               "single_word": False, "special": True} for text in SPECIAL},
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    tokenizer = train(pathlib.Path(sys.argv[1]))
    save(tokenizer, pathlib.Path(sys.argv[2]))
    print(tokenizer.get_vocab_size(), tokenizer.encode("She buys 12 more pens. 12+70=82.").tokens)
