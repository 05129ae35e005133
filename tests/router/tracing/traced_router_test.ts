import assert from "node:assert/strict";
import { test } from "node:test";
import type { OutgoingRequest } from "../../../base/transport.ts";
import { makeWorld, tree931 } from "../../simulation/world.ts";
import { RecordedSpans } from "./recorded_spans.ts";

const CLIENT = { trace: "0af7651916cd43dd8448eb211c80319c", span: "b7ad6b7169203331" };

/** A router in front of simulated pairs that keeps its spans, and the requests with a place in a trace. */
function tracedWorld(options: { refuses?: string } = {}) {
  let spans: RecordedSpans | undefined;
  const sent: OutgoingRequest[] = [];
  const world = makeWorld({
    seed: "traces",
    replicas: 1,
    graphs: {
      moa: tree931(12),
      plain: {
        layers: [{ agents: [{ model: "8b", prompt: "plain" }] }],
        incremental_prefill: { mode: "off" },
      },
    },
    prompts: { plain: { text: "Q: [input_prompts]" } },
    pairs: {},
    model: { retries: 0 },
    spans: (clock) => spans = new RecordedSpans(clock),
    intercept: (request) => {
      if (request.headers["traceparent"] !== undefined) sent.push(request);
      if (options.refuses === undefined || !request.url.includes(options.refuses)) return undefined;
      if (!request.url.endsWith("/chat/completions")) return undefined;
      return () => Promise.resolve({ status: 500, headers: {}, body: (async function* () {})() });
    },
  });
  const ask = async (model: string, more: object = {}) => {
    const router = world.router();
    await router.ready();
    const response = await router.app.request("/v1/chat/completions", {
      method: "POST",
      headers: {
        "content-type": "application/json",
        traceparent: `00-${CLIENT.trace}-${CLIENT.span}-01`,
        tracestate: "vendor=1",
      },
      body: JSON.stringify({ model, max_tokens: 8, messages: [{ role: "user", content: "Why?" }], ...more }),
    });
    const text = await response.text();
    await router.close();
    return { status: response.status, text };
  };
  return { world, ask, sent, spans: () => spans! };
}

/** The span that a request to a worker names as its parent. */
function parentOf(request: OutgoingRequest | undefined): string | undefined {
  return request?.headers["traceparent"]?.split("-")[2];
}

test("a relayed request is one span under the client's, with one under it for each half of its pair", async () => {
  const { world, ask, sent, spans } = tracedWorld();
  await world.clock.run(async () => {
    assert.equal((await ask("8b", { stream: true })).status, 200);
    const [request, ...legs] = spans().all;
    assert.deepEqual(
      [request?.name, request?.kind, request?.parent, request?.attributes["http.response.status_code"]],
      ["POST /v1/chat/completions", "server", CLIENT.span, 200],
    );
    assert.deepEqual(legs.map(({ parent }) => parent), [request?.id, request?.id]);
    assert.deepEqual(legs.map(({ attributes }) => attributes["canopy.phase"]).sort(), ["decode", "prefill"]);
    assert.deepEqual(sent.map(parentOf).sort(), legs.map(({ id }) => id).sort());
    for (const { headers } of sent) {
      assert.equal(headers["traceparent"]?.split("-")[1], CLIENT.trace);
      assert.equal(headers["tracestate"], "vendor=1");
    }
    assert.ok(spans().all.every(({ endMs, error }) => endMs !== undefined && error === undefined));
  });
});

test("of a run the client's request holds the run, the run its agents and warms, an agent both halves of its pair", async () => {
  const { world, ask, spans } = tracedWorld();
  await world.clock.run(async () => {
    assert.equal((await ask("moa")).status, 200);
    const all = spans();
    const [request] = all.all;
    assert.ok(request !== undefined);
    const [run, ...others] = all.under(request);
    assert.ok(run !== undefined);
    assert.deepEqual([run.name, others], ["invoke_agent moa", []]);
    const agents = all.under(run).filter(({ name }) => name.startsWith("chat "));
    const warms = all.under(run).filter(({ name }) => name.startsWith("warm "));
    assert.equal(agents.length, 13);
    assert.equal(agents.length + warms.length, all.under(run).length);
    for (const agent of agents) {
      const legs = all.under(agent);
      assert.deepEqual(legs.map(({ attributes }) => attributes["canopy.phase"]).sort(), [
        "decode",
        "prefill",
      ]);
      assert.ok(Number(agent.attributes["gen_ai.usage.output_tokens"]) > 0);
      assert.equal((agent.attributes["gen_ai.response.finish_reasons"] as string[]).length, 1);
      for (const leg of legs) assert.ok(leg.startMs >= agent.startMs && leg.endMs! <= run.endMs!);
    }
    assert.ok(all.all.every(({ endMs }) => endMs !== undefined));
  });
});

test("a worker's failure is the error of its span and of the request's, and probes are in no trace", async () => {
  const { world, ask, spans } = tracedWorld({ refuses: "8b-decode" });
  await world.clock.run(async () => {
    assert.equal((await ask("8b")).status, 502);
    const [request, ...legs] = spans().all;
    assert.deepEqual([request?.attributes["http.response.status_code"], request?.error], [
      502,
      "server_error",
    ]);
    assert.equal(legs.find(({ attributes }) => attributes["canopy.phase"] === "decode")?.error, "status 500");
    assert.equal(legs.length, 2);
  });
});

test("a run that is refused before it starts has ended its span, with the reason", async () => {
  const { world, ask, spans } = tracedWorld();
  await world.clock.run(async () => {
    const picture = { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } };
    const messages = [{ role: "user", content: [{ type: "text", text: "Why?" }, picture] }];
    const { status } = await ask("plain", { messages });
    assert.equal(status, 400);
    const run = spans().all.find(({ name }) => name === "invoke_agent plain");
    assert.notEqual(run?.endMs, undefined);
    assert.match(run?.error ?? "", /image_url/);
  });
});
