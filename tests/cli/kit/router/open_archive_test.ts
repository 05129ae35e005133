import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Random } from "../../../../base/random.ts";
import { configSchema } from "../../../../cfgs/schema/config.ts";
import { startRouter } from "../../../../cli/kit/router/local_router.ts";
import { inFolder } from "../../../router/archive/made_runs.ts";
import { until } from "../../../until.ts";
import { withServers } from "../../serve/routers.ts";
import { withSystem } from "../../served.ts";
import "../../../loopback.ts";

interface Serving {
  /** Asks the graph once. */
  chat(): Promise<void>;
  get(path: string): Promise<Response>;
  /** Ids that are listed, once there are so many of ended runs. */
  listed(count: number): Promise<string[]>;
}

let starts = 0;

/** A router with these `server.records` while `use` runs; gives its output. */
async function whileServing(
  { cwd, worker, records }: { cwd: string; worker: string; records: object },
  use: (serving: Serving) => Promise<void>,
): Promise<{ out: string; err: string }> {
  const config = configSchema.parse({
    server: { records },
    models: { a: { model: "org/a", engine: "sglang", workers: [worker] } },
    graphs: { duo: { layers: [{ agents: [{ model: "a" }, { model: "a" }] }, { agents: [{ model: "a" }] }] } },
  });
  return await withSystem(async (io) => {
    // As in life, no two starts give the same ids.
    const random = new Random(`start ${starts++}`);
    const { router, url } = await startRouter(config, { ...io, random }, { host: "127.0.0.1", port: 0 });
    try {
      await router.ready();
      const get = (path: string) => fetch(url + path);
      await use({
        get,
        chat: async () => {
          const response = await fetch(`${url}/v1/chat/completions`, {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify({
              model: "duo",
              messages: [{ role: "user", content: "Hello" }],
              max_tokens: 4,
            }),
          });
          assert.equal(response.status, 200, await response.text());
        },
        listed: async (count) => {
          let ids: string[] = [];
          await until(`${count} runs have ended`, async () => {
            const { data }: { data: { id: string; state: string }[] } = await (await get("/v1/runs")).json();
            ids = data.map(({ id }) => id);
            return data.length === count && data.every(({ state }) => state !== "running");
          });
          return ids;
        },
      });
    } finally {
      await router.close();
    }
    return { out: io.out.text, err: io.err.text };
  }, { cwd });
}

test("runs that are recorded are there after the next start, without texts, and the start says where", async () => {
  await inFolder(async (cwd) => {
    await withServers([{}], async ([worker = ""]) => {
      const at = { cwd, worker, records: { file: "kept/runs.sqlite" } };
      let before: string[] = [];
      const { out, err } = await whileServing(at, async ({ chat, listed, get }) => {
        await chat();
        await chat();
        before = await listed(2);
        // In memory texts are there, as they always were.
        const { agents } = await (await get(`/v1/runs/${before[0]}`)).json();
        assert.notEqual(agents[0].text, "");
      });
      const path = join(cwd, "kept/runs.sqlite");
      const line = `Runs are recorded in ${path} for 30 days, up to 256 MiB, without prompts and answers\n`;
      // Standard output belongs to the command, which may be one that asks a single question.
      assert.deepEqual([err.includes(line), out], [true, ""], err);
      await whileServing(at, async ({ chat, listed, get }) => {
        assert.deepEqual(await listed(2), before);
        const { agents, texts_kept: kept, events } = await (await get(`/v1/runs/${before[1]}`)).json();
        assert.equal(agents.length, 3);
        assert.deepEqual([kept, agents[0].text, agents[0].prompt], [false, "", null]);
        assert.equal(events.at(-1).type, "run_done");
        await chat();
        assert.deepEqual((await listed(3)).slice(1), before);
      });
    });
  });
});

test("a file that cannot be used is told in one line, and runs are served and kept in memory all the same", async () => {
  await inFolder(async (cwd) => {
    writeFileSync(join(cwd, "notes.txt"), "Notes, and no database. ".repeat(100));
    await withServers([{}], async ([worker = ""]) => {
      const { err } = await whileServing(
        { cwd, worker, records: { file: "notes.txt" } },
        async ({ chat, listed }) => {
          await chat();
          await listed(1);
        },
      );
      assert.doesNotMatch(err, /recorded/);
      assert.equal(
        err.split("\n").find((line) => line.includes("records")),
        `Cannot use the records of runs in ${
          join(cwd, "notes.txt")
        }: file is not a database. Runs are kept in ` +
          "memory alone: mend or move the file, or name another one (server.records.file), and start again",
      );
    });
  });
});

test("where nothing is to be kept, neither memory nor a file has a run that has ended", async () => {
  await inFolder(async (cwd) => {
    await withServers([{}], async ([worker = ""]) => {
      const records = { keep: false, file: "runs.sqlite" };
      const { err } = await whileServing({ cwd, worker, records }, async ({ chat, listed }) => {
        await chat();
        assert.deepEqual(await listed(0), []);
      });
      assert.doesNotMatch(err, /recorded/);
      assert.equal(existsSync(join(cwd, "runs.sqlite")), false);
    });
  });
});
