import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../../until.ts";
import "../../loopback.ts";
import { chat, whileServing, withServers } from "./routers.ts";

test("--dp-aware: the ranks of a server are workers as SGLang's routers list them, and it is asked for one", async () => {
  for (const threads of ["1", "2"]) {
    await withServers([{ dpSize: 2 }], async ([server]) => {
      const flags = ["--worker-urls", server!, "--dp-aware", "--workers", threads];
      const { code, err } = await whileServing(flags, async (url) => {
        const urls = async () => {
          const { workers }: { workers: { url: string }[] } = await (await fetch(`${url}/workers`)).json();
          return workers.map((worker) => worker.url).join();
        };
        await until("its ranks are known", async () => await urls() === `${server}@0,${server}@1`);
        assert.equal((await chat(url, "org/a")).status, 200);
        const answers = await Promise.all([1, 2].map(async () => {
          const headers = { "content-type": "application/json" };
          const body = JSON.stringify({ text: "Hello", sampling_params: { max_new_tokens: 2 } });
          const answer: { meta_info: { dp_rank: unknown } } =
            await (await fetch(`${url}/generate`, { method: "POST", headers, body })).json();
          return answer.meta_info.dp_rank;
        }));
        assert.ok(answers.every((rank) => rank === 0 || rank === 1));
      });
      assert.equal(code, 0, err);
    });
  }
});
