import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { doctorCommand } from "../../../cli/doctor/doctor.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { startSimulator } from "../../../simulator/serve.ts";
import { withServedDemo, withSystem } from "../served.ts";
import { TINY_FOLDER } from "../../embedded/tiny_model.ts";

/** Runs the doctor on a configuration of these models. */
async function doctor(models: unknown, port: number, ...args: string[]) {
  const folder = mkdtempSync(join(tmpdir(), "canopy-doctor-"));
  try {
    const path = join(folder, "canopy.json");
    writeFileSync(path, JSON.stringify({ server: { port }, models }));
    return await withSystem(async (io) => {
      const code = await runCommand([doctorCommand], ["doctor", path, ...args], io);
      return { code, out: io.out.text.replaceAll(path, "FILE"), err: io.err.text };
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("canopy doctor tells of every worker who it is and what it can do", async () => {
  const [vllm, sglang] = await withSystem((io) =>
    Promise.all(
      (["vllm", "sglang"] as const).map((engine) =>
        startSimulator({ engine, models: ["org/a"], cost: "instant", seed: "x", clock: io.clock })
      ),
    )
  );
  try {
    const { code, out, err } = await doctor({
      a: { model: "org/a", engine: "vllm", workers: [vllm!.url] },
      b: { model: "org/a", engine: "sglang", workers: [sglang!.url] },
    }, 0);
    assert.equal(err, "");
    assert.match(
      out,
      /^✓ runtime: Canopy \d+\.\d+\.\d+, (Deno|Bun) [\d.]+.* cores, [\d.]+ of [\d.]+ GiB memory free$/m,
    );
    assert.match(out, /^[✓!] GPU: /m);
    assert.match(out, /^✓ configuration: FILE can be served$/m);
    assert.match(out, /^✓ port 0: free on 127\.0\.0\.1$/m);
    const found = (name: string, url: string) =>
      new RegExp(
        `^✓ model ${name} at ${url}: (vllm|sglang) \\d.*, \\d+ tokens of context, answers in \\d+ ms$`,
        "m",
      );
    assert.match(out, found("a", vllm!.url));
    assert.match(out, found("b", sglang!.url));
    assert.match(out, /^Nothing stands in the way\.$/m);
    assert.equal(code, 0);
  } finally {
    await Promise.all([vllm!.close(), sglang!.close()]);
  }
});

test("canopy doctor names what would not work, with the fix, and ends with 1", async () => {
  const engine = await withSystem((io) =>
    startSimulator({ engine: "vllm", models: ["org/a"], cost: "instant", seed: "x", clock: io.clock })
  );
  const gone = await withSystem((io) =>
    startSimulator({ engine: "vllm", models: ["org/a"], cost: "instant", seed: "x", clock: io.clock })
  );
  await gone.close();
  try {
    const port = Number(new URL(engine.url).port);
    const { code, out } = await doctor({
      a: { model: "org/b", engine: "vllm", workers: [engine.url, gone.url] },
    }, port);
    assert.equal(code, 1);
    assert.ok(
      out.includes(`✗ model a at ${engine.url}: serves "org/a", not "org/b": set models.a.model\n`),
      out,
    );
    assert.ok(
      out.includes(
        `✗ model a at ${gone.url}: Worker ${gone.url} cannot be reached: start it, or correct models.a.workers\n`,
      ),
      out,
    );
    assert.match(
      out,
      new RegExp(
        `^! port ${port}: Cannot listen on 127.0.0.1:${port}: the port is taken; choose another one, or stop`,
        "m",
      ),
    );
    assert.match(out, /^2 problems\.$/m);
    const json = JSON.parse((await doctor({ a: { model: "x", engine: "vlm" } }, 0, "--json")).out);
    const problem = json.findings.find((finding: { level: string }) => finding.level === "problem");
    assert.equal(problem.subject, "configuration");
    assert.match(problem.text, /models\.a\.engine is "vlm"/);
  } finally {
    await engine.close();
  }
});

test("canopy doctor says of a running router that it cannot be asked without a configuration", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-doctor-"));
  try {
    await withSystem(async (io) => {
      await runCommand([doctorCommand], ["doctor", "--live", "--port", "8000"], { ...io, cwd });
      assert.match(io.out.text, /^! router: not asked: its address and key are in the configuration$/m);
    });
  } finally {
    rmSync(cwd, { recursive: true });
  }
  const { code, err } = await doctor({}, 0, "--port", "8000");
  assert.deepEqual([code, /Option --port.*give --live/.test(err)], [2, true]);
});

test("canopy doctor says whether the weights of embedded models are here, and how to get them", async () => {
  const { code, out } = await doctor({
    here: { model: TINY_FOLDER, engine: "onnx", onnx: { file: "../tiny-qwen3-onnx/model.onnx" } },
    away: { model: "acme/no-such-model", engine: "onnx" },
  }, 0);
  assert.equal(code, 1);
  assert.match(
    out,
    /^✓ model here in this process: \S+model\.onnx, 32768 tokens of context, products of floats, on \S/m,
  );
  assert.match(out, /^✗ model away in this process: .* run `canopy models pull acme\/no-such-model`/m);
});

test("canopy doctor says what a refused key needs, and that its port is a Canopy's", async () => {
  await withServedDemo(async (url) => {
    const closed = createServer((_, response) => response.writeHead(401).end("no"));
    await new Promise<void>((resolve) => closed.listen(0, "127.0.0.1", resolve));
    try {
      const address = closed.address();
      assert.ok(address !== null && typeof address === "object");
      const port = Number(new URL(url).port);
      const { code, out } = await doctor({
        a: { model: "a", engine: "vllm", workers: [`http://127.0.0.1:${address.port}`] },
      }, port);
      assert.equal(code, 1);
      assert.match(out, /^✗ model a at \S+: .*: set models\.a\.api_key to the key it wants$/m);
      assert.ok(
        out.includes(`✓ port ${port}: a Canopy is serving on ${url}: another one needs --port\n`),
        out,
      );
    } finally {
      closed.close();
    }
  });
});
