import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { mortalEnv } from "../lifeline.ts";
import { HANG_MS, until } from "../until.ts";
import { type RunningBinary, startBinary } from "./binary.ts";

// What stands in examples/, run against the binary as its users would; Python's clients beyond what examples need.

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const ENGINES = process.env["CANOPY_ENGINES_DIR"] ?? join(homedir(), ".cache", "canopy-engines");
const CLIENTS = join(ENGINES, "clients");
const noPython = existsSync(join(CLIENTS, ".done"))
  ? false
  : "Python's clients are not installed here: run tests/engines/setup_clients.sh";
/** What runs a file of JavaScript as these tests are run. */
const RUNTIME = [process.execPath, ...("Deno" in globalThis ? ["run", "-A", "--no-check"] : [])];
const HOME = mkdtempSync(join(tmpdir(), "canopy-examples-"));

let binary: RunningBinary;

before(async () => {
  binary = await startBinary(["demo", "--serve-only", "--port", "0", "--speedup", "50"]);
  await until("readiness", async () => (await fetch(`${binary.url}/readiness`)).status === 200);
});

after(async () => {
  await binary.stop();
  rmSync(HOME, { recursive: true, force: true });
});

/** Runs a command of a user who has set nothing but the server's address, and gives what it wrote. */
function run(command: readonly string[]): Promise<string> {
  const [program = "", ...args] = command;
  const env = mortalEnv({
    PATH: [join(CLIENTS, "bin"), process.env["PATH"]].join(delimiter),
    HOME: process.env["HOME"],
    CANOPY_URL: binary.url,
    NO_PROXY: "127.0.0.1",
    // What lm-eval keeps of data sets; it is asked for none but a local file.
    HF_HOME: HOME,
    HF_HUB_OFFLINE: "1",
  });
  const child = spawn(program, args, {
    cwd: ROOT,
    env,
    stdio: ["ignore", "pipe", "pipe"],
    signal: AbortSignal.timeout(HANG_MS),
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (piece) => output += piece);
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      if (code === 0) resolve(output);
      else reject(new Error(`${command.join(" ")} ended with ${code}:\n${output}`));
    });
  });
}

const python = (path: string) => run([join(CLIENTS, "bin", "python"), path]);

test("examples/javascript streams an answer and says who said what", async () => {
  const output = await run([...RUNTIME, "examples/javascript/openai_chat.mjs"]);
  assert.match(output, /\d+ tokens read, \d+ written by all agents\n(l\d\.c\d\.a\d \(\w+\): ".+"\n){12}$/);
});

test("examples/python answers by OpenAI's chat and responses, and by Anthropic's messages", {
  skip: noPython,
}, async () => {
  const chat = await python("examples/python/openai_chat.py");
  assert.match(chat, /\d+ tokens read, \d+ written by all agents\n(l\d\.c\d\.a\d \(\w+\): .+\n){12}$/);
  const response = await python("examples/python/openai_responses.py");
  assert.match(response, /12 of 12 agents answered[^]+\d+ tokens read, \d+ written by all agents\n$/);
  const message = await python("examples/python/anthropic_messages.py");
  assert.match(message, /\w[^]+\n\n(end_turn|max_tokens), \d+ tokens written by all agents\n$/);
});

test("OpenAI's and Anthropic's clients for Python get from a tree what they must", {
  skip: noPython,
}, async () => {
  const output = await python("tests/conformance/python_clients.py");
  assert.equal(output.match(/^ok /gm)?.length, 8, output);
});

test("examples/langchain streams a chain over the tree, and asks it twice at once", {
  skip: noPython,
}, async () => {
  assert.match(await python("examples/langchain/chain.py"), /\w[^]+\n\n2 more answers: \['.+', '.+'\]\n$/);
});

test("examples/lm_eval grades the tree's answers", { skip: noPython }, async () => {
  const output = await run(["examples/lm_eval/run.sh"]);
  assert.match(output, /\|canopy_sums\|.*\|stated\s*\|.*\|exact_match\|.*\| *\d/);
});

test("what Open WebUI is told in examples/open_webui finds the tree and gets its answers", async () => {
  const file = parse(readFileSync(join(ROOT, "examples/open_webui/compose.yaml"), "utf8"));
  const { OPENAI_API_BASE_URL: base, OPENAI_API_KEY: key } = file.services["open-webui"].environment;
  const set = (text: string) =>
    text.replaceAll(/\$\{(\w+):-([^}]*)\}/g, (_, name, usual) => name === "CANOPY_URL" ? binary.url : usual);
  const headers = { authorization: `Bearer ${set(key)}`, "content-type": "application/json" };
  // The calls of its backend/open_webui/routers: models, a chat that is streamed, a title that is not.
  const listed = await (await fetch(`${set(base)}/models`, { headers })).json();
  assert.ok(listed.data.some(({ id }: { id: string }) => id === "moa"), JSON.stringify(listed));
  const ask = (body: object) =>
    fetch(`${set(base)}/chat/completions`, {
      method: "POST",
      headers,
      body: JSON.stringify({
        model: "moa",
        messages: [{ role: "user", content: "What is 17 * 23?" }],
        ...body,
      }),
    });
  const chat = await ask({ stream: true, stream_options: { include_usage: true } });
  assert.match(chat.headers.get("content-type") ?? "", /^text\/event-stream/);
  assert.match(await chat.text(), /"usage":\{[^]*data: \[DONE\]\n\n$/);
  const title = await (await ask({ stream: false, max_completion_tokens: 1000 })).json();
  assert.ok(title.choices[0].message.content.length > 0, JSON.stringify(title));
});
