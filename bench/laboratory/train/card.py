"""Writes the models' card from what was measured: `python card.py MODELS EVALUATION.json`, into MODELS/README.md.

MODELS holds the exported folders; curves and hashes come from HOME, and are copied to MODELS/training.
"""
import argparse
import hashlib
import json
import pathlib
import shutil

from home import HOME
from texts import read_lines

parser = argparse.ArgumentParser()
parser.add_argument("models")
parser.add_argument("evaluation")
parser.add_argument("--home", default=HOME)
options = parser.parse_args()
SIZES = ["s", "m", "l"]


def percent(rate):
    return f"{100 * rate['rate']:.1f} % ({100 * rate['low']:.1f}–{100 * rate['high']:.1f})"


def parameters(folder):
    """Number of weights in a safetensors file, from its header."""
    with open(folder / "model.safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    total = 0
    for name, tensor in header.items():
        if name != "__metadata__":
            count = 1
            for side in tensor["shape"]:
                count *= side
            total += count
    return total


def table(head, rows):
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in [head, ["---"] * len(head), *rows])


def row_of_model(models, size):
    config = json.loads((models / size / "config.json").read_text())
    file = models / size / "model.safetensors"
    return [f"laboratory-{size}", f"{parameters(models / size):,}", config["num_hidden_layers"], config["hidden_size"],
            f"{config['num_attention_heads']} / {config['num_key_value_heads']}", f"{file.stat().st_size / 1e6:.2f} MB",
            f"`{hashlib.sha256(file.read_bytes()).hexdigest()}`"]


def training(home, models, size):
    source = home / size / "curve.jsonl"
    target = models / "training" / f"{size}.jsonl"
    target.parent.mkdir(exist_ok=True)
    shutil.copy(source, target)
    lines = read_lines(source)
    tokens = sum(line.get("tokens", 0) for line in lines)
    minutes = max(line.get("minutes", 0) for line in lines)
    return f"- `{size}`: {lines[-1]['step']} steps" + (f", {tokens / 1e6:.1f} M tokens" if tokens else "") + \
        f", {minutes:.0f} minutes on one shared core, seed {lines[-1]['seed']}; curve: `training/{size}.jsonl`"


def aggregation(found):
    rows = []
    for name, one in found.items():
        test = one["against_best"]
        rows.append([name, percent(one["rates"]["all"]), f"{one['best_proposer']}: {percent(one['best_rate'])}",
                     f"{test['only_first']} : {test['only_second']}", f"{test['p']:.2g}"])
    return table(["aggregator", "right", "its best proposer", "only one right", "p (McNemar)"], rows)


def main():
    models, home = pathlib.Path(options.models), pathlib.Path(options.home)
    result = json.loads(pathlib.Path(options.evaluation).read_text())
    hashes = json.loads((home / "data/sha256.json").read_text())
    greedy = result["greedy"]
    kinds = [name for name in greedy["s"] if name != "all"]
    voted = result["self_consistency"]
    text = f"""# The laboratory's models

Three tiny language models of the Qwen3 architecture and a tiny embedding model of Qwen3-Embedding's form, trained from
nothing on word problems that `bench/datasets/laboratory` writes (`story`: a number is asked for; `choice`: yes or no).
With them the whole method of Canopy runs on real tokens, real mistakes and real engines, on any laptop, without a download.

They are for: measuring trees, overlap and exits; tests; demonstrations; learning how Canopy works.
They are not for: anything else. They know some 700 words, answer only questions of these forms, write nonsense to all
others, and their accuracy says nothing of what large models get out of the method. `s` and `m` only propose;
`l` was trained to aggregate, too (how well it does, stands below).

{table(["model", "parameters", "layers", "width", "heads / key-value heads", "float16", "SHA-256 of model.safetensors"],
       [row_of_model(models, size) for size in [*SIZES, "embedding"]])}

Tokenizer: byte-level BPE of 768 tokens, every digit one token. Chat template: ChatML, no thinking. Weights are float16,
rounded from float32; what stands below was measured with the rounded ones, calculated in float32.

## Accuracy

Greedy, on {result['questions']} questions of the test set, with 95 % Wilson intervals. Neither templates nor numbers of the test
set occur in training.

{table(["", *SIZES], [["all", *(percent(greedy[size]["all"]) for size in SIZES)],
                      *([kind, *(percent(greedy[size][kind]) for size in SIZES)] for kind in kinds),
                      ["tokens an answer", *(result["tokens"][size] for size in SIZES)]])}

Self-consistency of {voted['model']}: the majority of {voted['samples']} samples at temperature {voted['temperature']} is right in {percent(voted['majority'])}, one sample
in {percent(voted['one_sample'])}; against greedy {voted['against_greedy']['only_first']} : {voted['against_greedy']['only_second']}, p = {voted['against_greedy']['p']:.2g}.

An aggregator reads the question and three answers, of s, m and l in this order. At least one of the three greedy ones is
right in {percent(result['any_of_three_greedy'])}; their majority (l where all differ) in {percent(result['majority_of_three_greedy'])}.

{aggregation(result['aggregator'])}

Raw figures: `training/evaluation.json`, by `bench/laboratory/train/evaluate.py`.

## Training

Adam and Muon in float32, loss on the solution only; the aggregator's examples hold 2 to 9 solutions, sampled from the
models themselves at temperatures of 0.7 to 1, or made of the right one by a slip (`slips.py`). Scripts and commands:
`bench/laboratory/train`. `m` was grown from a checkpoint of `s` (970 steps), `l` from a first one of five layers and 96
wide (2,574 steps, curve: `training/l-first.jsonl`), itself grown from that of `s`. Up to step 970 of `s` and 457 of the
first `l` the second kind of question were small tables, then, until step 1319 of `s`, 958 of `m` and 1364 of the first
`l`, options with letters; neither was learnt above chance, and both have gone from the generator. Up to step 1609 of `s`,
1375 of `m` and 3416 of `l` solutions compared two numbers in one word, which none learnt either; since then they compare
digit by digit. `s` and `m` were stopped early, so that the three differ. The tokenizer was trained on the first of these
texts.

{chr(10).join(training(home, models, size) for size in [*SIZES, "embedding"])}

SHA-256 of the questions, as `write_data.ts` writes them:

{chr(10).join(f"- `{name}`: `{value}`" for name, value in hashes.items())}
"""
    (models / "README.md").write_text(text)
    shutil.copy(options.evaluation, models / "training/evaluation.json")


main()
