import assert from "node:assert/strict";
import { test } from "node:test";
import { commandsFor } from "../../cli/commands.ts";

const namesFor = async (...args: string[]) => (await commandsFor(args)).map(({ name }) => name);

test("a command line loads the command that it names, nothing for the version, all for what is none", async () => {
  const all = await namesFor("--help");
  assert.deepEqual(all.at(-1), "completion");
  assert.equal(new Set(all).size, all.length);
  for (const name of all.slice(0, -1)) {
    assert.deepEqual(await namesFor(name, "--help"), [name]);
    assert.deepEqual(await namesFor("help", name), [name]);
  }
  for (const version of ["version", "--version", "-V"]) assert.deepEqual(await namesFor(version), []);
  for (const other of [[], ["help"], ["sevre"], ["toString"], ["completion", "bash"]]) {
    assert.deepEqual(await namesFor(...other), all);
  }
});
