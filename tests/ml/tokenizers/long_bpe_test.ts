import assert from "node:assert/strict";
import { test } from "node:test";
import { BPE, Tokenizer } from "@huggingface/tokenizers";
import { Random } from "../../../base/random.ts";
import { mergePiece } from "../../../ml/tokenizers/long_bpe.ts";
import { loadFixture } from "./tokenizer_shapes.ts";

for (const name of ["tiny-qwen3", "tokenizers/tiny-llama"]) {
  test(`a long piece is merged as the library merges it: ${name}`, async () => {
    const { files } = await loadFixture(name);
    const { model } = new Tokenizer(files.tokenizer, files.config);
    assert.ok(model instanceof BPE);
    const random = new Random(`bpe ${name}`);
    const alphabets = [
      " ",
      "-",
      "ab",
      "the ",
      "\u4e16\u754c",
      "\u0120\u0120the",
      "\u00e4\u00bc\u013d",
      "\u2581\u2581a",
      "\u{1f600}-",
    ];
    let merged = 0;
    for (let round = 0; round < 400; round++) {
      const letters = [...random.pick(alphabets), ...random.int(3) === 0 ? random.pick(alphabets) : ""];
      const piece = Array.from({ length: 1 + random.int(700) }, () => random.pick(letters)).join("");
      const tokens = mergePiece(piece, model.bpe_ranks);
      assert.deepEqual(tokens, model.bpe(piece), JSON.stringify(piece));
      merged += [...piece].length - tokens.length;
    }
    assert.ok(merged > 10_000, `${merged}`);
  });
}
