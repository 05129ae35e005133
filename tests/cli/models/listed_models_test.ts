import assert from "node:assert/strict";
import { test } from "node:test";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { modelsCommand } from "../../../cli/models/models.ts";
import { fakeIo } from "../fake_io.ts";

test("models list has what comes with Canopy, and pull says where that is instead of fetching it", async () => {
  const run = async (...args: string[]) => {
    const io = fakeIo({ env: { HF_HOME: "/nowhere" } });
    const code = await runCommand([modelsCommand], ["models", ...args], io);
    return { code, out: io.out.text, err: io.err.text };
  };
  const list = await run("list");
  assert.equal(list.code, 0);
  for (const name of ["s", "m", "l", "embedding"]) {
    assert.match(list.out, new RegExp(`^laboratory/${name} .* MB +comes with Canopy$`, "m"));
  }
  const pull = await run("pull", "laboratory/l");
  assert.deepEqual([pull.code, pull.err], [0, "laboratory/l comes with Canopy: nothing to fetch\n"]);
  assert.match(pull.out, /models[^/]*\/laboratory\/l\n$/);
});
