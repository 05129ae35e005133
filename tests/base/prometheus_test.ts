import assert from "node:assert/strict";
import { test } from "node:test";
import { Counter, Distribution, Histogram, MetricsText } from "../../base/prometheus.ts";

test("families are written with their help and type, a line for each series, labels escaped", () => {
  const requests = new Counter("requests_total", "Requests.");
  requests.add({ model: 'a"b\\c\n', outcome: "ok" });
  requests.add({ model: "m", outcome: "ok" }, 2);
  requests.add({ model: "m", outcome: "ok" });
  const text = new MetricsText();
  requests.write(text);
  text.gauge("in_flight", "Now.", 3);
  text.gauge("up", "By worker.", [[{ worker: "w1" }, 1], [{ worker: "w2" }, 0.5]]);
  assert.equal(
    text.toString(),
    [
      "# HELP requests_total Requests.",
      "# TYPE requests_total counter",
      'requests_total{model="a\\"b\\\\c\\n",outcome="ok"} 1',
      'requests_total{model="m",outcome="ok"} 3',
      "# HELP in_flight Now.",
      "# TYPE in_flight gauge",
      "in_flight 3",
      "# HELP up By worker.",
      "# TYPE up gauge",
      'up{worker="w1"} 1',
      'up{worker="w2"} 0.5',
      "",
    ].join("\n"),
  );
});

test("a histogram counts what is at most each bound", () => {
  const seconds = new Histogram("seconds", "Time.", [0.1, 1]);
  for (const value of [0.05, 0.1, 0.5, 7]) seconds.observe({ graph: "moa" }, value);
  const text = new MetricsText();
  seconds.write(text);
  assert.deepEqual(text.toString().split("\n").slice(2, -1), [
    'seconds_bucket{graph="moa",le="0.1"} 2',
    'seconds_bucket{graph="moa",le="1"} 3',
    'seconds_bucket{graph="moa",le="+Inf"} 4',
    'seconds_count{graph="moa"} 4',
    'seconds_sum{graph="moa"} 7.65',
  ]);
});

test("one observation may stand for several equal ones", () => {
  const one = new Distribution([1, 2]);
  one.observe(1.5, 3);
  assert.deepEqual([one.sum, one.count, one.counts], [4.5, 3, [0, 3]]);
});

test("common labels come first, and numbers are spelt as asked for", () => {
  const text = new MetricsText({ labels: { engine: "0" }, format: (value) => value.toFixed(1) });
  const distribution = new Distribution([1]);
  distribution.observe(2);
  text.counter("a", "A.", [[{ kind: "x" }, 1]]);
  text.histogram("h", "H.", distribution);
  const lines = text.toString().split("\n").filter((line) => !line.startsWith("#"));
  assert.deepEqual(lines, [
    'a{engine="0",kind="x"} 1.0',
    'h_bucket{engine="0",le="1.0"} 0.0',
    'h_bucket{engine="0",le="+Inf"} 1.0',
    'h_count{engine="0"} 1.0',
    'h_sum{engine="0"} 2.0',
    "",
  ]);
});
