"""Records torch's greedy answers of the laboratory's models in float32, for tests/embedded/laboratory_test.ts.

    python bench/laboratory/export/record_greedy.py PROMPTS.json

PROMPTS.json is a list of users' messages; by default those of the fixture are asked again.
"""

import hashlib
import json
import pathlib
import sys

import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[3]
FIXTURE = ROOT / "tests/fixtures/laboratory/greedy.json"
torch.set_num_threads(1)


def prompts():
    if len(sys.argv) > 1:
        return json.loads(pathlib.Path(sys.argv[1]).read_text())
    return json.loads(FIXTURE.read_text())["prompts"]


def answer(model, ids, end):
    with torch.no_grad():
        out = model.generate(torch.tensor([ids]), max_new_tokens=160, do_sample=False, eos_token_id=end,
                             output_logits=True, return_dict_in_generate=True)
    new = out.sequences[0, len(ids):].tolist()
    logprobs = [torch.log_softmax(row[0].double(), -1)[token].item() for row, token in zip(out.logits, new)]
    return new, logprobs


def record(name, texts):
    folder = ROOT / "models/laboratory" / name
    tokenizer = AutoTokenizer.from_pretrained(folder)
    weights = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if name == "embedding":
        model = AutoModel.from_pretrained(folder, dtype=torch.float32)
        cases = []
        for text in texts:
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
            with torch.no_grad():
                rows = model(torch.tensor([ids])).last_hidden_state[0]
            cases.append({"prompt_ids": ids, "last": [round(v, 6) for v in rows[-1].tolist()]})
        return {"sha256": weights, "cases": cases}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    cases = []
    for text in texts:
        messages = [{"role": "user", "content": text}]
        prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        new, logprobs = answer(model, ids, model.config.eos_token_id)
        cases.append({"prompt_ids": ids, "token_ids": new, "logprobs": [round(v, 6) for v in logprobs]})
    return {"sha256": weights, "cases": cases}


texts = prompts()
FIXTURE.parent.mkdir(exist_ok=True)
models = {name: record(name, texts) for name in ["s", "m", "l", "embedding"]}
FIXTURE.write_text(json.dumps({"prompts": texts, "models": models}) + "\n")
