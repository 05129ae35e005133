import assert from "node:assert/strict";
import { test } from "node:test";
import { withDriverVariables } from "../../../cli/bench/eval/driver_variables.ts";
import { UsageError } from "../../../cli/kit/args.ts";
import { fakeIo } from "../fake_io.ts";

const NOTHING = { samples: undefined, concurrency: undefined, config: [], url: undefined };
const ENV = { NUM_SAMPLES: "85", QUESTION_BATCH_SIZE: "4", CONFIG_PATH: "cfgs/a.json" };

test("what Faster-MoA's driver is told by its environment is in effect, and said in one line", () => {
  const io = fakeIo({ env: ENV });
  const expected = { samples: 85, concurrency: 4, config: ["cfgs/a.json"], url: undefined };
  assert.deepEqual(withDriverVariables(NOTHING, io), expected);
  assert.equal(
    io.err.text,
    "From the environment: --samples 85 (NUM_SAMPLES), --concurrency 4 (QUESTION_BATCH_SIZE), " +
      "--config cfgs/a.json (CONFIG_PATH)\n",
  );
});

test("options go before the driver's variables, a server's URL before its configuration; empty ones are none", () => {
  const given = { samples: 1, concurrency: 2, config: ["b.json"], url: undefined };
  const io = fakeIo({ env: ENV });
  assert.deepEqual(withDriverVariables(given, io), given);
  const atServer = { ...NOTHING, samples: 1, concurrency: 2, url: "http://s" };
  assert.deepEqual(withDriverVariables(atServer, io), atServer);
  const empty = fakeIo({ env: { NUM_SAMPLES: "", QUESTION_BATCH_SIZE: "", CONFIG_PATH: "" } });
  assert.deepEqual(withDriverVariables(NOTHING, empty), NOTHING);
  assert.deepEqual([io.err.text, empty.err.text], ["", ""]);
});

test("a driver's variable that is no number is refused by its name", () => {
  for (const text of ["0", "-1", "1.5", "many", "1e3"]) {
    assert.throws(
      () => withDriverVariables(NOTHING, fakeIo({ env: { NUM_SAMPLES: text } })),
      (error) => error instanceof UsageError && error.message.startsWith("Variable NUM_SAMPLES must be"),
    );
  }
});
