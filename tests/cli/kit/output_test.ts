import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { selfCommand } from "../../../launcher/commands/self_command.ts";
import { mortalEnv } from "../../lifeline.ts";

/** Runs the program with readers who read nothing of one of its outputs and leave at once. */
async function unread(args: readonly string[], output: "stdout" | "stderr") {
  const [program, ...rest] = selfCommand(args);
  const child = spawn(program, rest, { stdio: ["ignore", "pipe", "pipe"], env: mortalEnv() });
  child[output].destroy();
  let said = "";
  child[output === "stdout" ? "stderr" : "stdout"].on("data", (chunk) => said += chunk);
  const code = await new Promise((resolve) => child.once("close", resolve));
  return { code, said };
}

test("a reader who leaves early is no failure, and one of the errors changes nothing", async () => {
  assert.deepEqual(await unread(["check", "--schema"], "stdout"), { code: 0, said: "" });
  assert.deepEqual(await unread(["nonsense"], "stderr"), { code: 2, said: "" });
});
