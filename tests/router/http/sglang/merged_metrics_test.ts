import assert from "node:assert/strict";
import { test } from "node:test";
import { MergedMetrics } from "../../../../router/http/sglang/merged_metrics.ts";

test("pages of several servers become one: families once, series told apart, other lines dropped", () => {
  const page = (n: number) =>
    [
      "# HELP a:tokens_total Tokens.",
      "# TYPE a:tokens_total counter",
      `a:tokens_total{model="x y",} ${n}.0`,
      "# HELP h Times.",
      "# TYPE h histogram",
      'h_bucket{le="+Inf"} 2',
      "h_count 2",
      `h_sum ${n}`,
      "<html>",
      `up ${n}`,
      "",
    ].join("\n");
  const merged = new MergedMetrics();
  merged.add(page(1), { w: "one" });
  merged.add(page(2), { w: 't"wo' });
  assert.equal(
    merged.toString(),
    `# HELP a:tokens_total Tokens.
# TYPE a:tokens_total counter
a:tokens_total{w="one",model="x y"} 1.0
a:tokens_total{w="t\\"wo",model="x y"} 2.0
# HELP h Times.
# TYPE h histogram
h_bucket{w="one",le="+Inf"} 2
h_count{w="one"} 2
h_sum{w="one"} 1
h_bucket{w="t\\"wo",le="+Inf"} 2
h_count{w="t\\"wo"} 2
h_sum{w="t\\"wo"} 2
up{w="one"} 1
up{w="t\\"wo"} 2
`,
  );
});
