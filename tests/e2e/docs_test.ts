import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { mortalEnv } from "../lifeline.ts";
import { HANG_MS } from "../until.ts";
import { binaryPath } from "./binary.ts";
import { withNamedPorts } from "./turn.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const names = readdirSync(join(root, "docs")).filter((name) => name.endsWith(".md"));
const pages = ["README.md", ...names.map((name) => `docs/${name}`)];

interface Block {
  readonly language: string;
  readonly code: string;
  /** The file that the text just before the block, or just after it, says it is to be saved as. */
  readonly savedAs: string | undefined;
}

function blocksOf(page: string): Block[] {
  const text = readFileSync(join(root, page), "utf8");
  return [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```\n(\n.*)?/gm)].map((match) => ({
    language: match[1] ?? "",
    code: match[2] ?? "",
    savedAs: /Save the file above as `([^`]+)`/.exec(match[3] ?? "")?.[1] ??
      (/^(?:\/\/|#) ([\w.-]+\.(?:jsonc|json|yaml))$/m.exec((match[2] ?? "").split("\n")[0] ?? "")?.[1]),
  }));
}

/** Runs a block as one script, in which `canopy` is the binary; what it left in the background is ended. */
function run(script: string, folder: string): Promise<{ code: number | null; output: string }> {
  const body = `set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n${script}`;
  const child = spawn("bash", ["-c", body], {
    cwd: folder,
    env: { ...mortalEnv(), PATH: `${folder}/bin:${process.env["PATH"]}`, NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
    signal: AbortSignal.timeout(HANG_MS),
  });
  let output = "";
  child.stdout.on("data", (chunk) => output += chunk);
  child.stderr.on("data", (chunk) => output += chunk);
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, output }));
  });
}

for (const page of pages) {
  const blocks = blocksOf(page);
  if (!blocks.some((block) => block.language === "sh")) continue;
  test(`Every command of ${page} works as it stands`, async () => {
    const folder = mkdtempSync(join(tmpdir(), "canopy-docs-"));
    try {
      await run(`mkdir bin`, folder);
      symlinkSync(binaryPath, join(folder, "bin", "canopy"));
      await withNamedPorts(async () => {
        for (const block of blocks) {
          if (block.savedAs !== undefined) writeFileSync(join(folder, block.savedAs), block.code);
          if (block.language !== "sh") continue;
          const { code, output } = await run(block.code, folder);
          assert.equal(code, 0, `${block.code}\n${output}`);
        }
      });
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
}
