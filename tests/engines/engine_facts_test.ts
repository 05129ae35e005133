/**
 * What Canopy relies on, asked of the real engines without Canopy in between. When a new version of an engine is
 * added to `engineKinds`, this file says what has changed.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { becomesIdle, type EngineProcess, eventually, startEngine } from "./engine_process.ts";
import { open, send } from "./http_request.ts";
import { kindsUnderTest } from "./kinds_under_test.ts";

const modelNames = ["4b", "8b", "32b"];
const prompt = Array.from({ length: 40 }, (_, at) => 300 + at);
const greedy = { temperature: 0, ignore_eos: true };
/** Runs for 10 s and more: nothing but an abort ends it within a test. */
const long = { ...greedy, prompt, max_tokens: 4000, stream: true };
/** The stream has brought at least this many tokens. */
const tokens = (count: number) => (text: string) => text.split("data: ").length > count;

for (const kind of kindsUnderTest) {
  describe(`${kind.engine} ${kind.version}`, { concurrency: false }, () => {
    let engine: EngineProcess;
    before(async () => {
      engine = await startEngine({ ...kind, modelNames });
    });
    after(async () => {
      await engine?.stop();
    });

    const complete = (body: Record<string, unknown>) =>
      send("POST", `${engine.url}/v1/completions`, { model: "4b", ...body });
    const stream = (body: Record<string, unknown>) =>
      open("POST", `${engine.url}/v1/completions`, { model: "4b", ...body });

    test("says which version it is", () => {
      assert.equal(engine.version, kind.version);
    });

    test("answers under every model name", async () => {
      for (const model of modelNames) {
        const { status, text } = await complete({ model, prompt, max_tokens: 1 });
        assert.equal(status, 200, text);
      }
    });

    test("continues a prompt of token ids exactly as the other engines do", async () => {
      // "What is 2+2?" without a chat template
      const tokenized = await send("POST", `${engine.url}/tokenize`, {
        model: "4b",
        prompt: "What is 2+2?",
        add_special_tokens: false,
      });
      const ids: { tokens: number[] } = JSON.parse(tokenized.text);
      assert.equal(await engine.detokenize(ids.tokens), "What is 2+2?");
      const answer = await complete({ ...greedy, prompt: ids.tokens, max_tokens: 8, return_token_ids: true });
      const { choices }: { choices: { text: string; token_ids?: number[] }[] } = JSON.parse(answer.text);
      assert.equal(choices[0]?.text, "ser555ew val_ allows");
      assert.equal(await engine.detokenize([671, 20, 20, 20, 843, 1539, 62, 1850]), choices[0]?.text);
    });

    test("counts every request and its tokens once, streamed or not", async () => {
      const start = await engine.counters();
      const logged = (await engine.calls()).length;
      for (let at = 0; at < 3; at++) await complete({ ...greedy, prompt, max_tokens: 7 });
      await (await stream({ ...greedy, prompt, max_tokens: 7, stream: true })).end();
      await eventually(
        "4 finished",
        async () => (await engine.counters()).finished - start.finished === 4,
        1000,
      );
      await sleep(300); // time for one too many to be counted
      const end = await engine.counters();
      assert.equal(end.requests - start.requests, 4);
      assert.equal(end.finished - start.finished, 4);
      assert.equal(end.promptTokens - start.promptTokens, 4 * prompt.length);
      assert.equal(end.generationTokens - start.generationTokens, 4 * 7);
      assert.deepEqual(
        (await engine.calls()).slice(logged),
        Array(4).fill({ path: "/v1/completions", status: 200 }),
      );
    });

    test("health checks are not counted as requests", async () => {
      const start = await engine.counters();
      for (let at = 0; at < 2; at++) await send("GET", `${engine.url}/health`);
      assert.deepEqual(await engine.counters(), start);
    });

    test("a refused request is in the access log and not among the requests", async () => {
      const start = await engine.counters();
      const logged = (await engine.calls()).length;
      const { status } = await complete({ prompt, max_tokens: 0 });
      assert.equal(status, 400);
      assert.deepEqual((await engine.calls()).slice(logged), [{ path: "/v1/completions", status: 400 }]);
      assert.deepEqual(await engine.counters(), start);
    });

    test("shows what runs, while it prefills as well as while it decodes", async () => {
      assert.equal(await engine.runningRequests(), 0);
      const all = Promise.all([1, 2, 3].map(() => complete({ ...greedy, prompt, max_tokens: 600 })));
      await eventually("3 running", async () => await engine.runningRequests() === 3, 5000);
      await all;
      assert.ok(await becomesIdle(engine, 1000));
      const prefill = complete({
        prompt: Array.from({ length: 6000 }, (_, at) => 300 + at % 997),
        max_tokens: 1,
      });
      await sleep(100);
      assert.ok(await engine.runningRequests() > 0);
      await prefill;
      assert.ok(await becomesIdle(engine, 1000));
    });

    if (kind.engine === "vllm") {
      test("a closed stream ends the decode", async () => {
        const answer = await stream(long);
        await answer.until(tokens(50), 10_000);
        answer.leave();
        assert.ok(await becomesIdle(engine, 1000));
      });

      test("a closed connection ends a decode that is not streamed", async () => {
        let leave = () => {};
        const gone = open(
          "POST",
          `${engine.url}/v1/completions`,
          { model: "4b", ...long, stream: false },
          (close) => {
            leave = close;
          },
        );
        gone.catch(() => {}); // leaving rejects it
        await eventually("one running", async () => await engine.runningRequests() > 0, 5000);
        leave();
        assert.ok(await becomesIdle(engine, 1000));
      });
    }

    if (kind.engine === "sglang") {
      test("an abort before the stream is closed ends the decode and the stream", async () => {
        const answer = await stream({ ...long, rid: "abort-first" });
        await answer.until(tokens(50), 10_000);
        assert.equal((await send("POST", `${engine.url}/abort_request`, { rid: "abort-first" })).status, 200);
        assert.ok(await becomesIdle(engine, 1000));
        const text = await answer.end();
        assert.match(text, /"finish_reason":\s*"abort"/);
        assert.match(text, /data: \[DONE\]\s*$/);
      });

      test("an abort ends a native stream, too", async () => {
        const answer = await open("POST", `${engine.url}/generate`, {
          rid: "abort-native",
          input_ids: prompt,
          stream: true,
          sampling_params: { max_new_tokens: 4000, ...greedy },
        });
        await answer.until(tokens(50), 10_000);
        await send("POST", `${engine.url}/abort_request`, { rid: "abort-native" });
        assert.ok(await becomesIdle(engine, 1000));
        assert.match(await answer.end(), /"type":\s*"abort"/);
      });

      const deaf = kind.version === "0.5.18";
      test(`a closed stream ${deaf ? "does not end" : "ends"} the decode`, async () => {
        const answer = await stream({ ...long, max_tokens: 2000, rid: "closed" });
        await answer.until(tokens(50), 10_000);
        answer.leave();
        assert.equal(await becomesIdle(engine, 1000), !deaf);
        // From here on nothing can end it: the front end has forgotten the request.
        await send("POST", `${engine.url}/abort_request`, { rid: "closed" });
        assert.equal(await becomesIdle(engine, 1000), !deaf);
        assert.ok(await becomesIdle(engine, 30_000));
      });
    }
  });
}
