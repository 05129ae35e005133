import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { checkCommand } from "../../../cli/check/check.ts";
import { doctorCommand } from "../../../cli/doctor/doctor.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { serveCommand } from "../../../cli/serve/serve.ts";
import { type FakeIo } from "../fake_io.ts";
import { startSimulator } from "../../../simulator/serve.ts";
import { BUILTIN_TOKENIZER } from "../../../simulator/text/tokenizer.ts";
import "../../loopback.ts";
import { withSystem } from "../served.ts";

const OFFLINE = { HF_HUB_OFFLINE: "1", HF_HOME: "/nonexistent" };

/** A tree over one simulated server; `work` gets the configuration's path. */
async function withTree(
  tokenizerPath: string | undefined,
  work: (path: string, io: FakeIo) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "canopy-tokenizers-"));
  await withSystem(async (io) => {
    const server = await startSimulator({
      engine: "vllm",
      models: ["org/a"],
      cost: "4b",
      speedup: 10,
      seed: "x",
      clock: io.clock,
      tokenizerPath,
    });
    try {
      const path = join(folder, "canopy.json");
      const seeded = (seed: number) => ({ model: "a", sampling: { seed } });
      writeFileSync(
        path,
        JSON.stringify({
          server: { port: 0, log_level: "fatal" },
          models: { a: { model: "org/a", engine: "vllm", workers: [server.url] } },
          graphs: { moa: { layers: [{ agents: [seeded(1), seeded(2)] }, { agents: [{ model: "a" }] }] } },
        }),
      );
      await work(path, io);
    } finally {
      await server.close();
    }
  }, { env: OFFLINE }).finally(() => rmSync(folder, { recursive: true }));
}

test("canopy doctor says which tokenizer it found, or in one line that prompts are not prefilled ahead and what to do", async () => {
  await withTree(BUILTIN_TOKENIZER, async (path, io) => {
    await runCommand([doctorCommand], ["doctor", path], io);
    assert.match(
      io.out.text,
      /^✓ tokenizer of a: canopy:builtin: its agents' prompts can be prefilled ahead$/m,
    );
  });
  await withTree(undefined, async (path, io) => {
    await runCommand([doctorCommand], ["doctor", path], io);
    assert.match(
      io.out.text,
      /^! tokenizer of a: models\.a: no tokenizer, so http:\/\/\S+\/tokenize is asked, .*HF_HUB_OFFLINE.*; set models\.a\.tokenizer to a folder or Hub id, or to false/m,
    );
  });
});

test("canopy check says so as well, as far as it can be known without the workers", async () => {
  await withTree(undefined, async (path, io) => {
    assert.equal(await runCommand([checkCommand], ["check", path], io), 0);
    assert.match(
      io.out.text,
      /models\.a: no tokenizer on this host \("org\/a": .*HF_HUB_OFFLINE.*\): unless the workers name one .*answers that break off begin anew, .*not prefilled ahead; set models\.a\.tokenizer to a folder or Hub id, or to false/,
    );
  });
});

test("canopy doctor --live says how much of the running router's prompts was prefilled ahead", async () => {
  await withTree(BUILTIN_TOKENIZER, async (path, io) => {
    const serving = runCommand([serveCommand], ["serve", path], io);
    try {
      let url: string | undefined;
      while (url === undefined) {
        await io.clock.sleep(5);
        url = /listening on (\S+)/.exec(io.out.text)?.[1];
      }
      const live = async () => {
        io.out.text = "";
        await runCommand([doctorCommand], ["doctor", path, "--live", "--port", new URL(url!).port], io);
        return io.out.text;
      };
      assert.match(await live(), /^! router at \S+: no run has ended yet/m);
      // The tokenizer is found beside the start.
      for (let spliced = 0; spliced === 0;) {
        const response = await fetch(`${url}/v1/chat/completions`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({
            model: "moa",
            messages: [{ role: "user", content: "Why is the sky blue?" }],
            canopy: { include: ["usage"] },
          }),
        });
        spliced = (await response.json()).canopy.usage.spliced_tokens;
      }
      assert.match(
        await live(),
        /router at \S+, a: \d+ % of \d+ spliced tokens were cached at the final prefill$/m,
      );
      assert.match(io.out.text, /^\u2713 tokenizer of a: the running router has it/m);
    } finally {
      io.interrupt();
      await serving;
    }
  });
});
