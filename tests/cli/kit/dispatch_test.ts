import assert from "node:assert/strict";
import { test } from "node:test";
import { CanopyError } from "../../../base/errors.ts";
import { defineCommand } from "../../../cli/kit/command.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { fakeIo } from "../fake_io.ts";

let seen: unknown;

const greet = defineCommand({
  name: "greet",
  summary: "Greet somebody",
  arguments: "[NAME]",
  maxArguments: 1,
  options: {
    loud: { type: "flag", alias: ["l"], help: "Shout" },
    times: { type: "number", value: "N", min: 1, max: 9, help: "How often" },
    share: { type: "number", fraction: true, help: "A fraction" },
    style: { type: "text", value: "STYLE", choices: ["plain", "fancy"], help: "How" },
    tag: { type: "list", value: "TAG", help: "A word to add" },
  },
  details: "Example:\n  canopy greet Ada",
  run: (values, positional) => {
    seen = { ...values, positional };
    if (positional[0] === "nobody") {
      throw new CanopyError("Cannot greet: there is nobody: name somebody", { code: "nobody", status: 400 });
    }
    return Promise.resolve(positional[0] === "badly" ? 1 : 0);
  },
});

async function run(...args: string[]) {
  const io = fakeIo();
  const code = await runCommand([greet], args, io);
  return { code, out: io.out.text, err: io.err.text };
}

test("a command gets typed values: flags false and lists empty when absent", async () => {
  assert.equal((await run("greet")).code, 0);
  assert.deepEqual(seen, {
    loud: false,
    times: undefined,
    share: undefined,
    style: undefined,
    tag: [],
    positional: [],
  });
  await run(
    "greet",
    "-l",
    "--times",
    "3",
    "--share=0.5",
    "--style",
    "fancy",
    "--tag",
    "a",
    "--tag",
    "b",
    "Ada",
  );
  assert.deepEqual(seen, {
    loud: true,
    times: 3,
    share: 0.5,
    style: "fancy",
    tag: ["a", "b"],
    positional: ["Ada"],
  });
});

test("the help of a command is generated from its options", async () => {
  const expected = `Greet somebody.

Usage: canopy greet [NAME] [options]

Options:
  -l, --loud     Shout
  --times N      How often
  --share VALUE  A fraction
  --style STYLE  How (plain, fancy)
  --tag TAG      A word to add (repeatable)
  -h, --help     Show this help

Example:
  canopy greet Ada
`;
  assert.deepEqual(await run("greet", "--help"), { code: 0, out: expected, err: "" });
  assert.deepEqual(await run("help", "greet"), { code: 0, out: expected, err: "" });
});

test("the overview lists the commands; without a command it is an error", async () => {
  const { code, out } = await run("--help");
  assert.equal(code, 0);
  assert.match(out, /greet +Greet somebody/);
  assert.deepEqual(await run(), { code: 2, out: "", err: out });
  assert.match((await run("--version")).out, /^canopy \d+\.\d+\.\d+\n$/);
});

test("wrong usage ends with 2 and one sentence on standard error", async () => {
  const see = '(see "canopy greet --help")\n';
  const cases: [string[], string][] = [
    [["greet", "--loudd"], `canopy greet: Unknown option --loudd: did you mean --loud? ${see}`],
    [["greet", "a", "b"], `canopy greet: Unexpected argument "b": greet takes at most 1 ${see}`],
    [
      ["greet", "--times", "10"],
      `canopy greet: Option --times must be a whole number from 1 to 9: current value is "10" ${see}`,
    ],
    [
      ["greet", "--times", "1.5"],
      `canopy greet: Option --times must be a whole number from 1 to 9: current value is "1.5" ${see}`,
    ],
    [["greet", "--share", ""], `canopy greet: Option --share must be a number: current value is "" ${see}`],
    [
      ["greet", "--style", "odd"],
      `canopy greet: Option --style must be one of plain, fancy: current value is "odd" ${see}`,
    ],
    [["gret"], 'canopy: Unknown command gret: did you mean "canopy greet"?\n'],
    [["help", "xyzzyxyzzy"], 'canopy: Unknown command xyzzyxyzzy: see "canopy --help"\n'],
    [["--verbose"], 'canopy: Unknown option --verbose: see "canopy --help"\n'],
  ];
  for (const [args, err] of cases) assert.deepEqual(await run(...args), { code: 2, out: "", err });
});

test("a failed command ends with 1, an error with its sentence", async () => {
  assert.deepEqual(await run("greet", "badly"), { code: 1, out: "", err: "" });
  assert.deepEqual(await run("greet", "nobody"), {
    code: 1,
    out: "",
    err: "canopy greet: Cannot greet: there is nobody: name somebody\n",
  });
});

test("work that Ctrl-C cuts short ends with 130, and says no more than that", async () => {
  const wait = defineCommand({
    name: "wait",
    summary: "Wait",
    maxArguments: 0,
    options: {},
    run: (_values, _positional, io) =>
      new Promise((_, reject) => io.stop.addEventListener("abort", () => reject(io.stop.reason))),
  });
  const io = fakeIo();
  const ended = runCommand([wait], ["wait"], io);
  io.interrupt();
  assert.equal(await ended, 130);
  assert.equal(io.err.text, "canopy wait: stopped\n");
});

test("canopy version is canopy --version", async () => {
  assert.deepEqual(await run("version"), await run("--version"));
  assert.match((await run("version")).out, /^canopy \d+\.\d+\.\d+\n$/);
});
