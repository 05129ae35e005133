import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { benchCommand } from "../../../cli/bench/bench.ts";
import { completionCommand } from "../../../cli/completion/completion.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { serveCommand } from "../../../cli/serve/serve.ts";
import { simCommand } from "../../../cli/sim/sim.ts";
import { fakeIo } from "../fake_io.ts";

const commands = [serveCommand, simCommand, benchCommand];

async function completion(...args: string[]) {
  const io = fakeIo();
  const code = await runCommand([...commands, completionCommand(commands)], ["completion", ...args], io);
  return { code, out: io.out.text, err: io.err.text };
}

test("bash completes commands, a group's commands, options, and values that are chosen from few", async () => {
  const { code, out } = await completion("bash");
  assert.equal(code, 0);
  const complete = (...words: string[]) => {
    const list = words.map((word) => `'${word}'`).join(" ");
    const ask = `COMP_WORDS=(${list}); COMP_CWORD=${words.length - 1}; _canopy; echo "\${COMPREPLY[@]}"`;
    const asked = spawnSync("bash", ["-c", `${out}\n${ask}`], { encoding: "utf8" });
    assert.equal(asked.stderr, "");
    return asked.stdout.trim().split(" ");
  };
  assert.deepEqual(complete("canopy", "s"), ["serve", "sim"]);
  assert.deepEqual(complete("canopy", "bench", "lo"), ["load"]);
  assert.deepEqual(complete("canopy", "bench", "load", "--conc"), ["--concurrency"]);
  assert.deepEqual(complete("canopy", "sim", "--engine", ""), ["vllm", "sglang"]);
  assert.deepEqual(complete("canopy", "sim", "--port", "9000", "--engine", "s"), ["sglang"]);
  assert.deepEqual(complete("canopy", "serve", "--worker-u"), ["--worker-urls"]);
  assert.deepEqual(complete("canopy", "nope", ""), [""]);
});

test("zsh and fish get scripts of their own, and another shell is refused by name", async () => {
  assert.match((await completion("zsh")).out, /^autoload -U \+X bashcompinit && bashcompinit\n/);
  const fish = (await completion("fish")).out;
  assert.match(fish, /^complete -c canopy -n __fish_use_subcommand -a sim -d 'Run a simulated/m);
  assert.match(fish, /^complete -c canopy -n '__fish_seen_subcommand_from bench' -a load -d /m);
  assert.match(
    fish,
    /^complete -c canopy -n '__fish_seen_subcommand_from bench; and __fish_seen_subcommand_from load' -l model -r -d /m,
  );
  assert.match(fish, /-l engine -x -a 'vllm sglang' -d /);
  assert.deepEqual(await completion("tcsh"), {
    code: 2,
    out: "",
    err:
      'canopy completion: Unknown shell tcsh: name one of bash, zsh, fish (see "canopy completion --help")\n',
  });
  assert.equal((await completion()).code, 2);
});
