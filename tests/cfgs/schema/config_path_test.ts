import assert from "node:assert/strict";
import { test } from "node:test";
import { anyCharacter, fc } from "../../properties.ts";
import { formatPath, isWithin, parsePath } from "../../../cfgs/schema/config_path.ts";

test("A path is written as people write it", () => {
  assert.equal(
    formatPath(["graphs", "moa", "layers", 0, "agents", 2, "model"]),
    "graphs.moa.layers[0].agents[2].model",
  );
  assert.equal(
    formatPath(["models", "Qwen/Qwen2.5-7B", "workers", 0]),
    'models["Qwen/Qwen2.5-7B"].workers[0]',
  );
});

test("Every path is read back as it was written", () => {
  const part = fc.oneof(fc.string(), fc.string({ unit: anyCharacter }), fc.nat());
  fc.assert(
    fc.property(fc.array(part, { minLength: 1, maxLength: 6 }), (path) => {
      assert.deepEqual(parsePath(formatPath(path)), path);
    }),
    { numRuns: 60 },
  );
});

test("A text that is no path is refused", () => {
  for (const text of ["", ".", "a.", ".a", "a..b", "a[", "a[x]", 'a["x]', "a b", "a=b"]) {
    assert.equal(parsePath(text), undefined, text);
  }
});

test("A path lies within itself and its ancestors only", () => {
  assert.ok(isWithin(["a", 0, "b"], ["a", 0]));
  assert.ok(isWithin(["a"], ["a"]));
  assert.ok(!isWithin(["a"], ["a", 0]));
  assert.ok(!isWithin(["a", 1], ["a", 0]));
});
