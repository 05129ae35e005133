import assert from "node:assert/strict";
import { test } from "node:test";
import { MetricsText } from "../../../base/prometheus.ts";
import { CHART_KINDS, chartPoints, type Snapshot, withSnapshot } from "../../../page/state/chart_series.ts";
import { readMetrics, sumOfSamples } from "../../../page/state/metrics_text.ts";
import { modelTokens } from "../../../page/state/worker_view.ts";
import { fc } from "../../properties.ts";

test("metrics are read as the router writes them, whatever stands in a label", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), fc.nat(), (model, value) => {
      const text = new MetricsText();
      text.counter("canopy_a_total", "Help.", [[{ model, kind: "x" }, value], [
        { model: "other", kind: "x" },
        5,
      ]]);
      text.gauge("canopy_b", "Help.", 2.5);
      const samples = readMetrics(text.toString());
      assert.deepEqual(samples[0], { name: "canopy_a_total", labels: { model, kind: "x" }, value });
      assert.equal(sumOfSamples(samples, "canopy_a_total", { kind: "x" }), value + 5);
      assert.equal(sumOfSamples(samples, "canopy_b"), 2.5);
      // Ends of a line to JavaScript, and none to Prometheus.
    }),
    { examples: [["\u2028", 0], ["a\r\u2029b", 1], ['"\\\n', 2]] },
  );
});

test("the work of a model is the sum of its counters", () => {
  const samples = readMetrics(
    'canopy_agent_calls_total{model="m"} 4\ncanopy_tokens_total{model="m",kind="prompt"} 10\n' +
      'canopy_tokens_total{model="m",kind="cached"} 6\ncanopy_tokens_total{model="n",kind="cached"} 1\n' +
      'canopy_agent_calls_total{model="n"} 1\ncanopy_cost_total{model="n"} 0.25\n',
  );
  const none = { promptTokens: 0, cachedTokens: 0, completionTokens: 0, warmTokens: 0 };
  assert.deepEqual(modelTokens(samples), [
    { ...none, model: "m", calls: 4, promptTokens: 10, cachedTokens: 6, cost: undefined },
    { ...none, model: "n", calls: 1, cachedTokens: 1, cost: 0.25 },
  ]);
});

function snapshot(atMs: number, [fast, slow]: readonly [number, number], prompt = 0, cached = 0): Snapshot {
  const name = "canopy_run_duration_seconds_bucket";
  return {
    atMs,
    samples: readMetrics(
      `${name}{graph="g",le="1"} ${fast}\n${name}{graph="g",le="2"} ${fast + slow}\n` +
        `${name}{graph="g",le="+Inf"} ${fast + slow}\nsmg_http_requests_total ${fast + slow}\n` +
        `canopy_tokens_total{kind="prompt"} ${prompt}\ncanopy_tokens_total{kind="cached"} ${cached}\n`,
    ),
  };
}

test("a chart shows what has changed between two looks, and a gap where nothing was measured", () => {
  const kind = (title: RegExp) => CHART_KINDS.find((one) => title.test(one.title)) ?? CHART_KINDS[0]!;
  const all = [snapshot(0, [5, 0]), snapshot(2_000, [5, 4], 100, 25), snapshot(4_000, [5, 4], 100, 25)];
  const values = (title: RegExp) => chartPoints(kind(title), all).map(({ value }) => value);
  assert.deepEqual(values(/Duration of runs/), [1.5, undefined]);
  assert.deepEqual(values(/found in a cache/), [25, undefined]);
});

test("the time between two tokens is charted as its median and its 99th percentile", () => {
  const bounds = ["0.01", "0.02", "+Inf"];
  const look = (atMs: number, counts: readonly number[]): Snapshot => ({
    atMs,
    samples: readMetrics(
      bounds.map((le, at) => `canopy_inter_token_seconds_bucket{graph="g",le="${le}"} ${counts[at]}\n`).join(
        "",
      ),
    ),
  });
  const all = [look(0, [10, 10, 10]), look(2_000, [60, 110, 110]), look(4_000, [60, 110, 110])];
  const values = CHART_KINDS.filter(({ from }) => from === "canopy_inter_token_seconds")
    .map((kind) => chartPoints(kind, all).map(({ value }) => value && Number(value.toFixed(6))));
  assert.deepEqual(values, [[0.01, undefined], [0.0198, undefined]]);
});

test("after a restart of the router a chart begins anew", () => {
  const before = withSnapshot(withSnapshot([], snapshot(0, [5, 0])), snapshot(1, [6, 0]));
  assert.equal(before.length, 2);
  assert.equal(withSnapshot(before, snapshot(2, [1, 0])).length, 1);
});
