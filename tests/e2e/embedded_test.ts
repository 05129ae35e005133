import assert from "node:assert/strict";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { isJsonObject } from "../../base/json.ts";
import { HANG_MS } from "../until.ts";
import { startBinary } from "./binary.ts";
import { tinyFiles } from "../embedded/tiny_model.ts";

// A language model inside of the binary, which runs far away from its sources.

const greedyFile = fileURLToPath(new URL("../fixtures/tiny-qwen3-onnx/greedy.json", import.meta.url));

test("canopy serve runs an embedded model and a tree over it", { timeout: HANG_MS }, async () => {
  const folder = await mkdtemp(join(tmpdir(), "canopy-embedded-"));
  try {
    for (const [name, path] of Object.entries(tinyFiles)) {
      await mkdir(dirname(join(folder, "tiny", name)), { recursive: true });
      await cp(path, join(folder, "tiny", name));
    }
    const agent = { model: "tiny" };
    await writeFile(
      join(folder, "canopy.json"),
      JSON.stringify({
        models: { tiny: { model: "tiny", engine: "onnx", onnx: { threads: 1, cache_bytes: 67_108_864 } } },
        graphs: {
          moa: {
            sampling: { max_tokens: 12, ignore_eos: true },
            layers: [{ clusters: 3, agents: [agent, agent, agent] }, { agents: [agent, agent, agent] }, {
              agents: [agent],
            }],
            incremental_prefill: { mode: "on" },
          },
        },
      }),
    );
    const canopy = await startBinary(["serve", "canopy.json", "--port", "0"], { cwd: folder });
    try {
      const ask = async (path: string, body: Record<string, unknown>) => {
        const response = await fetch(`${canopy.url}${path}`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(body),
        });
        const answer: unknown = await response.json();
        assert.ok(isJsonObject(answer));
        assert.equal(response.status, 200, JSON.stringify(answer));
        return answer;
      };
      const greedy: { cases: { prompt_ids: number[]; token_ids: number[] }[] } = JSON.parse(
        await readFile(greedyFile, "utf8"),
      );
      for (const { prompt_ids: prompt, token_ids: expected } of greedy.cases) {
        const answer = await ask("/v1/completions", {
          model: "tiny",
          prompt,
          temperature: 0,
          max_tokens: expected.length,
          ignore_eos: true,
          return_token_ids: true,
        });
        const choice = Array.isArray(answer.choices) ? answer.choices[0] : undefined;
        assert.deepEqual(isJsonObject(choice) ? choice.token_ids : undefined, expected);
      }
      const answer = await ask("/v1/chat/completions", {
        model: "moa",
        messages: [{ role: "user", content: "Why is the sky blue?" }],
      });
      assert.equal(isJsonObject(answer.usage) ? answer.usage.completion_tokens : 0, 13 * 12);
    } finally {
      assert.equal(await canopy.stop(), 0, canopy.output());
    }
  } finally {
    await rm(folder, { recursive: true });
  }
});
