import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { parseArgs, UsageError } from "../../../cli/kit/args.ts";

const options = {
  string: ["host", "port", "set", "max-model-length"],
  boolean: ["show", "help", "color"],
  collect: ["set"],
  negatable: ["color"],
  alias: { help: ["h"], "max-model-length": ["max_model_length", "ml"], port: ["p"] },
} as const;

function parse(...args: string[]) {
  const { _, values } = parseArgs(args, options);
  return { _, ...Object.fromEntries(values) };
}

test("parseArgs reads options, lists, flags and positional arguments in any order", () => {
  assert.deepEqual(parse("f.json", "--host", "h", "--port=90", "--set", "a=1", "--set=b=2", "--show", "x"), {
    _: ["f.json", "x"],
    host: "h",
    port: "90",
    set: ["a=1", "b=2"],
    show: true,
  });
});

test("parseArgs takes everything after -- as it is", () => {
  assert.deepEqual(parse("--show", "--", "--host", "-x"), { _: ["--host", "-x"], show: true });
});

test("parseArgs reads other spellings under the first one", () => {
  assert.deepEqual(parse("-h", "-p", "1", "--max_model_length", "5"), {
    _: [],
    help: true,
    port: "1",
    "max-model-length": "5",
  });
  assert.deepEqual(parse("--ml", "6"), { _: [], "max-model-length": "6" });
});

test("parseArgs lets --no- switch off what is negatable, and nothing else", () => {
  assert.deepEqual(parse("--color", "--no-color"), { _: [], color: false });
  assert.throws(() => parse("--no-show"), /Unknown option --no-show/);
});

test("parseArgs takes the last of several values, and a negative number as a value", () => {
  assert.deepEqual(parse("--port", "1", "--port", "-2"), { _: [], port: "-2" });
});

test("parseArgs suggests the nearest option for an unknown one", () => {
  assert.throws(() => parse("--hots", "x"), new UsageError("Unknown option --hots: did you mean --host?"));
  assert.throws(() => parse("--zzzzzzz"), new UsageError("Unknown option --zzzzzzz"));
  assert.throws(() => parse("-x"), new UsageError("Unknown option -x"));
});

test("parseArgs says which option lacks its value, and which takes none", () => {
  const missing = new UsageError("Option --port needs a value: write --port=VALUE");
  assert.throws(() => parse("--port"), missing);
  assert.throws(() => parse("--port", "--show"), missing);
  assert.throws(
    () => parse("--show=1"),
    new UsageError('Option --show takes no value: current value is "1"'),
  );
});

test("parseArgs gives back any values that were put in with =", () => {
  fc.assert(
    fc.property(fc.array(fc.string()), fc.string(), (list, host) => {
      const args = [...list.map((item) => `--set=${item}`), `--host=${host}`];
      const { values } = parseArgs(args, options);
      assert.deepEqual(values.get("set") ?? [], list);
      assert.equal(values.get("host"), host);
    }),
  );
});
