import assert from "node:assert/strict";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { HANG_MS } from "../until.ts";
import { runBinary, startBinary } from "./binary.ts";
import { exports, modelFolder, reference, referenceText } from "../scorer/onnx/onnx_reference.ts";

// ONNX Runtime is inside of the binary, which runs far away from its sources.

for (const { file, tolerances } of exports) {
  test(`canopy score gives the reference's similarities with ${file}`, { timeout: HANG_MS }, async () => {
    const folder = await mkdtemp(join(tmpdir(), "canopy-score-"));
    try {
      for (const name of ["tokenizer.json", "tokenizer_config.json", "model.onnx_data", file]) {
        await cp(join(modelFolder, name), join(folder, name));
      }
      const answers = reference.pairs.flatMap(({ a, b }, index) =>
        [a, b].map((id, at) => ({ group: `pair ${index}`, id: `${at} ${id}`, text: referenceText(id) }))
      );
      await writeFile(
        join(folder, "answers.jsonl"),
        answers.map((answer) => JSON.stringify(answer)).join("\n"),
      );
      for (const metric of ["fcs", "fcs_u"] as const) {
        const { code, stdout, stderr } = await runBinary(
          ["score", "answers.jsonl", "--model", ".", "--similarity", metric, "--max-tokens", "4096"],
          { cwd: folder },
        );
        assert.equal(code, 0, stderr);
        const lines: { group: string; similarity: (number | null)[]; tokens: number }[] = stdout.trim().split(
          "\n",
        )
          .map((line) => JSON.parse(line));
        for (const [index, pair] of reference.pairs.entries()) {
          const line = lines.filter(({ group }) => group === `pair ${index}`)[1]!;
          assert.equal(line.tokens, reference.texts.find(({ id }) => id === pair.b)!.ids.length);
          const tolerance = tolerances.fcs * (metric === "fcs_u" && tolerances.fcs > 1e-6 ? 3 : 1);
          const error = Math.abs(line.similarity[0]! - pair[metric]);
          assert.ok(error <= tolerance, `${metric} of ${pair.a}, ${pair.b}: off by ${error}`);
        }
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  });
}

test("canopy serve runs the model in a thread of its own, and stops", { timeout: HANG_MS }, async () => {
  const folder = await mkdtemp(join(tmpdir(), "canopy-score-"));
  try {
    const model = { model: "m" };
    await writeFile(
      join(folder, "canopy.json"),
      JSON.stringify({
        models: { m: { model: "m", engine: "openai", workers: ["http://127.0.0.1:9"] } },
        graphs: {
          moa: {
            layers: [{ clusters: 1, agents: [model, model] }, { agents: [model] }],
            early_exit: { metric: "q" },
          },
        },
        scorer: { model: modelFolder, file: "model_kv.onnx" },
      }),
    );
    const server = await startBinary(["serve", "canopy.json", "--port", "0"], { cwd: folder });
    await server.says(/The scorer (is ready|cannot|'s thread)/);
    assert.match(server.output(), /The scorer is ready: [^]*model_kv\.onnx/);
    assert.equal(await server.stop(), 0);
  } finally {
    await rm(folder, { recursive: true });
  }
});
