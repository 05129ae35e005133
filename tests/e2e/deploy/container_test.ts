import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import "../../loopback.ts";
import { DOCKERFILE, PROGRAM_IN_CONTAINER } from "../../../launcher/emit/container_file.ts";
import { mortalEnv } from "../../lifeline.ts";
import { HANG_MS, until } from "../../until.ts";
import { binaryPath } from "../binary.ts";

// The binary in a root that has what its image has, as far as that can be had without a network: no shell, no other
// program, the C and C++ libraries of this host, and the user of the image.

const USER = "65532:65532";
/** Mounts /proc and /dev into a root, read-only where it is told to be, and starts a program there as that user. */
const ENTER = `set -e
root=$1 writable=$2; shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
[ "$writable" = yes ] || mount -o remount,bind,ro "$root"
exec chroot --userspec=${USER} "$root" "$@"`;

const enter = (
  args: readonly string[],
) => ["--mount", "--pid", "--fork", "--kill-child", "bash", "-c", ENTER, "enter", ...args];

const canEnter = process.platform === "linux" && process.getuid?.() === 0 &&
  spawnSync("unshare", ["--mount", "--pid", "--fork", "--mount-proc", "true"]).status === 0;
const skip = canEnter ? false : "it takes root and the right to mount to be in another root";

/** Shared libraries by name, where the host has them. */
function librariesOf(): string[] {
  const needed = spawnSync("ldd", [binaryPath], { encoding: "utf8" }).stdout;
  const known = spawnSync("/sbin/ldconfig", ["-p"], { encoding: "utf8" }).stdout.split("\n")
    .filter((line) => /lib(?:stdc\+\+\.so\.6|gcc_s\.so\.1|rt\.so\.1) .*(?:x86-64|AArch64)/.test(line));
  return [...`${needed}\n${known.join("\n")}`.matchAll(/(\/\S+\.so\S*)/g)].map(([, path = ""]) => path);
}

/** Makes such a root with this configuration. */
function makeRoot(config: string): string {
  const root = mkdtempSync(join(tmpdir(), "canopy-container-"));
  for (const folder of ["proc", "dev", "tmp", "etc/canopy", "usr/local/bin", "home/nonroot"]) {
    mkdirSync(join(root, folder), { recursive: true });
  }
  chmodSync(root, 0o755);
  chmodSync(join(root, "tmp"), 0o1777);
  for (const library of librariesOf()) {
    mkdirSync(dirname(join(root, library)), { recursive: true });
    copyFileSync(library, join(root, library));
  }
  copyFileSync(binaryPath, join(root, PROGRAM_IN_CONTAINER));
  chmodSync(join(root, PROGRAM_IN_CONTAINER), 0o755);
  writeFileSync(join(root, "etc/passwd"), "nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n");
  writeFileSync(join(root, "etc/canopy/canopy.jsonc"), config);
  return root;
}

/** The words of an instruction of the container file. */
function wordsOf(instruction: string): string[] {
  const line = DOCKERFILE.text.split("\n").find((one) => one.startsWith(`${instruction} `)) ?? "";
  return JSON.parse(line.slice(line.indexOf("[")));
}

interface Started {
  readonly process: ChildProcess;
  readonly output: () => string;
}

function start(root: string, writable: boolean, words: readonly string[]): Started {
  const args = enter([root, writable ? "yes" : "no", ...words]);
  const child = spawn("unshare", args, { stdio: ["ignore", "pipe", "pipe"], env: mortalEnv() });
  let output = "";
  child.stdout.on("data", (chunk) => output += chunk);
  child.stderr.on("data", (chunk) => output += chunk);
  return { process: child, output: () => output };
}

/** Runs a program in the root to its end. */
function run(root: string, words: readonly string[]) {
  const { status, stdout, stderr } = spawnSync("unshare", enter([root, "no", ...words]), {
    encoding: "utf8",
    timeout: HANG_MS,
  });
  return { status, said: `${stdout}${stderr}` };
}

const LABORATORY = readFileSync(new URL("../../../cfgs/presets/laboratory.jsonc", import.meta.url), "utf8");
const PLAIN = JSON.stringify({
  models: { m: { model: "m", engine: "openai", workers: ["http://127.0.0.1:9"] } },
  graphs: { duo: { layers: [{ agents: [{ model: "m" }, { model: "m" }] }, { agents: [{ model: "m" }] }] } },
});

for (
  const [what, config, writable] of [
    ["a tree of models in its own process", LABORATORY, true],
    ["a tree of others' models, on a file system that is read-only,", PLAIN, false],
  ] as const
) {
  test(`the container file's command serves ${what} without a shell and without root`, { skip }, async () => {
    const root = makeRoot(config);
    const [entry = ""] = wordsOf("ENTRYPOINT");
    const words = [entry, ...wordsOf("CMD")].map((word) => word === "8000" ? "0" : word);
    const started = start(root, writable, words);
    try {
      const port = () => /listening on http:\/\/0\.0\.0\.0:(\d+)/.exec(started.output())?.[1];
      await until("it listens", () => port() !== undefined || started.process.exitCode !== null);
      assert.equal(started.process.exitCode, null, started.output());
      const url = `http://127.0.0.1:${port()}`;
      const health = [...wordsOf("HEALTHCHECK"), "--url", url];
      assert.deepEqual(run(root, health), { status: 0, said: `${url} lives\n` }, started.output());
      if (writable) {
        const response = await fetch(`${url}/v1/chat/completions`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({
            model: "moa",
            messages: [{ role: "user", content: "Omar writes 13 lines a day for 9 days. How many is that?" }],
            max_tokens: 8,
          }),
        });
        assert.equal(response.status, 200, `${await response.text()}\n${started.output()}`);
      }
    } finally {
      started.process.kill("SIGKILL");
      await until(
        "it has ended",
        () => started.process.signalCode !== null || started.process.exitCode !== null,
      );
      rmSync(root, { recursive: true, force: true });
    }
  });
}
