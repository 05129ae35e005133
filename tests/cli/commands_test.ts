import assert from "node:assert/strict";
import { test } from "node:test";
import { readdirSync, readFileSync } from "node:fs";
import { commandsFor } from "../../cli/commands.ts";
import type { Command } from "../../cli/kit/command.ts";

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

const everyCommand = async () =>
  (await commandsFor([])).flatMap((command) => [command, ...(command.commands ?? [])]);

test("every help fits 80 columns, and has an example", async () => {
  for (const { name, help } of await everyCommand()) {
    const lines = help(80).split("\n");
    assert.deepEqual(lines.filter((line) => line.length > 80), [], name);
    assert.ok(lines.some((line) => /^Examples?:$/.test(line)), `${name} has no example`);
  }
});

/** The options of a line `canopy …` that there are not; all of `serve` and `launch`, which take other programs', are. */
function unknownOptions(line: string, commands: ReadonlyMap<string, Command>): string[] {
  // Behind these the shell has other things to do.
  const [own = ""] = line.split(/ {2,}| [|>&#]|[;,)"]/);
  const words = own.split(" ").slice(1);
  const command = commands.get(words.slice(0, 2).join(" ")) ?? commands.get(words[0] ?? "");
  if (command === undefined || ["serve", "launch"].includes(command.name)) return [];
  const known = Object.entries(command.options).flatMap(([name, { alias = [] }]) => [name, ...alias]);
  return words.filter((word) => word.startsWith("--") && word !== "--help").filter((word) =>
    !known.includes(word.slice(2).split("=")[0]!)
  );
}

test("command lines in helps and in the pages have options that there are", async () => {
  const commands = new Map((await everyCommand()).map((command) => [command.name, command]));
  const root = new URL("../../", import.meta.url);
  const docs = readdirSync(new URL("docs/", root)).filter((name) => name.endsWith(".md"));
  const pages = ["README.md", "CONTRIBUTING.md", ...docs.map((name) => `docs/${name}`)].map((path) => ({
    path,
    text: readFileSync(new URL(path, root), "utf8").replaceAll("\\\n", " "),
  }));
  const helps = [...commands.values()].map(({ name, help }) => ({ path: `canopy ${name}`, text: help() }));
  const found = [...helps, ...pages].flatMap(({ path, text }) =>
    [...text.matchAll(/(?:^|[`\s(])(canopy [a-z][^`\n]*)/gm)].map(([, line = ""]) => ({ path, line }))
  );
  assert.ok(found.length > 300, `${found.length} command lines`);
  const wrong = found.flatMap(({ path, line }) =>
    unknownOptions(line.replace(/ +$/, ""), commands).map((option) => `${path}: ${line}: no ${option}`)
  );
  assert.deepEqual(wrong, []);
});
