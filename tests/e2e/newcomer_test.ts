import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { until } from "../until.ts";
import { runBinary, type RunningBinary, startBinary } from "./binary.ts";
import { noTerminal, openTerminal, type TerminalBinary } from "./terminal.ts";
import { withNamedPorts } from "./turn.ts";

const QUESTION = "Why is the sky blue?";

test("a newcomer goes from an empty folder to a conversation, a page, a run and a report", {
  skip: noTerminal,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-newcomer-"));
  const sims: RunningBinary[] = [];
  const terminals: TerminalBinary[] = [];
  const open = (...args: string[]) => {
    const terminal = openTerminal(args, folder);
    terminals.push(terminal);
    return terminal;
  };
  try {
    await withNamedPorts(async () => {
      await refuseInEmptyFolder(open("serve"), folder);
      sims.push(await startBinary(["sim", ...models("org/Small-3B", "org/Middle-8B", "org/Large-32B")]));
      // Never has an answer while a test lasts, so that there is one to be stopped.
      sims.push(await startBinary(["sim", ...models("org/Slow-1B"), "--speedup", "0.001"]));
      await writeConfig(folder, sims.map(({ url }) => url));
      const server = open("serve");
      const url = /http:\S+/.exec(await server.says(/listening on http:\/\/\S+\s/))?.[0] ?? "";
      await until("readiness", async () => (await fetch(`${url}/readiness`)).status === 200);
      await converse(open("chat"), url);
      await lookAtPage(url);
      await lookAtRun(folder);
      await makeReport(folder, url);
      server.type("\x03");
      assert.equal((await server.ended()).code, 0);
      await assert.rejects(fetch(url));
    });
  } finally {
    for (const one of terminals) await one.close();
    for (const one of sims) await one.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});

const models = (...names: string[]) => names.flatMap((name) => ["--model", name]);

/** Without a configuration `canopy serve` offers to write one, and says what to do otherwise. */
async function refuseInEmptyFolder(terminal: TerminalBinary, folder: string): Promise<void> {
  await terminal.says(/No configuration in this folder\. Write one .*\[Y\/n\] $/);
  terminal.type("n\r");
  const { code, rest } = await terminal.ended();
  assert.equal(code, 2, rest);
  assert.match(rest, /canopy init/);
  assert.deepEqual(readdirSync(folder), []);
}

/** Looks at the servers that run, and writes a configuration that holds. */
async function writeConfig(cwd: string, urls: readonly string[]): Promise<void> {
  const { code, stdout, stderr } = await runBinary(["init", ...urls.flatMap((url) => ["--from", url])], {
    cwd,
  });
  assert.equal(code, 0, stdout + stderr);
  assert.match(stdout, /vllm: org\/Small-3B, org\/Middle-8B, org\/Large-32B/);
  assert.match(
    stdout,
    /in moa small-3b, middle-8b, large-32b answer, large-32b joins their answers[^]*Next:\n {2}canopy serve\n {2}canopy chat/,
  );
  assert.deepEqual(readdirSync(cwd).toSorted(), ["canopy.jsonc", "canopy.schema.json"]);
  assert.match(readFileSync(join(cwd, "canopy.jsonc"), "utf8"), /^ *\/\/ .*--records/m);
  const checked = await runBinary(["check"], { cwd });
  assert.equal(checked.code, 0, checked.stdout + checked.stderr);
}

/** A conversation on a terminal: the tree while one waits, the answer, and Ctrl-C that stops an answer alone. */
async function converse(chat: TerminalBinary, url: string): Promise<void> {
  await chat.says(/moa at http:\S+; \/help shows commands, .*\s+> $/);
  chat.type("/help\r");
  assert.match(await chat.says(/\s> $/), /\/save FILE/);
  let said = "";
  // Whoever looks four times a second may miss a run on a machine that is asleep meanwhile; it is asked again then.
  while (!/\d\/4 done/.test(said)) {
    chat.type(`${QUESTION}\r`);
    said = await chat.says(/\d+ tokens read.*, \d+ written\s+> $/);
  }
  assert.match(said, /l1\.c1\.a1 +small-3b[^]*l1\.c1\.a3 +large-32b[^]*l2\.c1\.a1 +large-32b/);
  chat.type("/model slow-1b\r");
  await chat.says(/slow-1b is asked from now on\.\s+> $/);
  chat.type(`${QUESTION}\r`);
  await until("the slow model is at work", async () => {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    return /^canopy_worker_in_flight\{[^}]*model="slow-1b"[^}]*\} 1$/m.test(metrics);
  });
  chat.type("\x03");
  await chat.says(/\(stopped\)\s+> $/);
  chat.type("/exit\r");
  assert.equal((await chat.ended()).code, 0);
}

/** The page, and all that it loads, comes from the server itself. */
async function lookAtPage(url: string): Promise<void> {
  const response = await fetch(`${url}/`, { headers: { accept: "text/html" } });
  assert.equal(response.status, 200);
  assert.doesNotMatch(response.headers.get("content-security-policy") ?? "unsafe", /unsafe/);
  const html = await response.text();
  const loaded = [...html.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, path = ""]) => path);
  assert.ok(loaded.length >= 2, html);
  for (const path of loaded) {
    const part = await fetch(`${url}${path}`);
    assert.equal(part.status, 200, path);
    assert.ok((await part.text()).length > 1_000, path);
  }
}

/** The conversation's run, listed and drawn. */
async function lookAtRun(cwd: string): Promise<void> {
  const list = await runBinary(["runs", "list"], { cwd });
  assert.match(list.stdout, /^run_\w+ +moa +done /m, list.stderr);
  const shown = await runBinary(["runs", "show"], { cwd });
  assert.equal(shown.code, 0, shown.stderr);
  assert.match(shown.stdout, /^run_\w+: moa, done in .*\n4 calls, /);
  assert.match(shown.stdout, /^l2\.c1\.a1 +large-32b +[░█]+ +\d+ tok/m);
}

/** A report over a few questions, which says that the engines are simulated. */
async function makeReport(cwd: string, url: string): Promise<void> {
  const asked = ["gsm8k", "--samples", "1", "--mode", "small-3b", "--max-tokens", "16"];
  const { code, stdout, stderr } = await runBinary(
    ["bench", "eval", ...asked, "--url", url, "--html", "report.html"],
    { cwd },
  );
  assert.equal(code, 0, stdout + stderr);
  assert.match(stdout, /Simulated engines.*\n[^]*^small-3b +1 /m);
  const report = readFileSync(join(cwd, "report.html"), "utf8");
  assert.match(report, /<h1>Right answers on data sets/);
  assert.match(report, /[Ss]imulated engines/);
}
