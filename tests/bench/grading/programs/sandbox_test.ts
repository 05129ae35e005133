import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { SystemClock } from "../../../../base/clock.ts";
import { checkProgram, rightValues } from "../../../../bench/grading/programs/check_program.ts";
import { forkFilter } from "../../../../bench/grading/programs/fork_filter.ts";
import type { ProgramTask } from "../../../../bench/grading/programs/program_task.ts";
import { openSandbox, type Sandbox, sandboxCommand } from "../../../../bench/grading/programs/sandbox.ts";
import { gradeProgram } from "../../../../bench/grading/grade_program.ts";

/** Opens a sandbox with programs that are shell scripts, and gives them to a piece of work. */
async function withPrograms(
  programs: Readonly<Record<string, string>>,
  work: (opened: Sandbox | string, folder: string) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "canopy-bwrap-"));
  try {
    for (const [name, script] of Object.entries(programs)) {
      writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`);
      chmodSync(join(folder, name), 0o755);
    }
    const env = { PATH: folder, FOLDER: folder };
    await work(await openSandbox({ env, clock: new SystemClock(), machine: "x64" }), folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const PYTHON = "printf '/opt/py/bin/python3\\n/opt/py\\n'";
const task: ProgramTask = {
  prompt: "def double(x):\n",
  entry: "double",
  solution: "def double(x):\n    return 2 * x\n",
  tolerance: 0,
  line: null,
  test: "def check(candidate):\n    inputs = [[1], [3]]\n",
};

test("A program runs in a sandbox without network, home, or anything that can be written to and lasts", () => {
  const command = (prefix: string, machine: string) =>
    sandboxCommand({ bwrap: "bwrap", python: "python3", prefix, machine, code: "pass" });
  assert.deepEqual(command("/opt/py", "x64"), [
    ...["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"],
    ...["--ro-bind", "/usr", "/usr", "--ro-bind-try", "/lib", "/lib", "--ro-bind-try", "/lib64", "/lib64"],
    ...["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--ro-bind", "/opt/py", "/opt/py"],
    ...["--proc", "/proc", "--dev", "/dev", "--size", "67108864", "--tmpfs", "/tmp", "--remount-ro", "/"],
    ...["--chdir", "/tmp", "--setenv", "PATH", "/usr/bin", "--setenv", "OMP_NUM_THREADS", "1"],
    ...["--seccomp", "9", "python3", "-I", "-c", "pass"],
  ]);
  assert.ok(!command("/usr", "riscv64").some((part) => part === "/opt/py" || part === "--seccomp"));
});

test("The filter of system calls ends with its three verdicts, and each jump stays within it", () => {
  for (const machine of ["x64", "arm64"]) {
    const filter = forkFilter(machine)!;
    assert.equal(filter.length, 13 * 8);
    const view = new DataView(filter.buffer);
    assert.deepEqual([10, 11, 12].map((at) => view.getUint32(8 * at + 4, true)), [
      0x7fff0000,
      0x50001,
      0x50026,
    ]);
    for (let at = 0; at < 13; at++) {
      assert.ok(at + 1 + Math.max(filter[8 * at + 2]!, filter[8 * at + 3]!) <= 13);
    }
  }
  assert.equal(forkFilter("riscv64"), undefined);
});

test("Without bwrap or Python, or where bwrap makes no sandbox, programs are not run, and the reason is named", async () => {
  await withPrograms({ python3: PYTHON }, async (opened) => {
    assert.match(String(opened), /there is no bwrap here: install bubblewrap/);
    const question = { id: "1", question: task.prompt, answer: "", grader: "code" } as const;
    const extra = { entryPoint: "double", solution: "    return 2 * x\n", tolerance: 0, test: task.test };
    const grade = await gradeProgram({ ...question, extra }, task.solution, () => Promise.resolve(opened));
    assert.deepEqual([grade.outcome, grade.unchecked], ["ungradable", opened]);
  });
  await withPrograms({ bwrap: "echo 42" }, (opened) => {
    assert.match(String(opened), /there is no python3 here/);
    return Promise.resolve();
  });
  const off = "echo 'bwrap: No permissions to create new namespace' >&2; exit 1";
  await withPrograms({ python3: PYTHON, bwrap: off }, (opened) => {
    assert.equal(opened, "bwrap makes no sandbox here: bwrap: No permissions to create new namespace");
    return Promise.resolve();
  });
});

/** A bwrap that keeps what it is given, and answers the probe, the task's own solution and a program in turn. */
const fakeBwrap = (own: readonly string[], program: readonly string[]) => `
here="$(dirname "$0")"
printf '%s\\n' "$@" > "$here/arguments"
cat > "$here/input"
if ! grep -q '"entry"' "$here/input"; then echo 42
elif grep -q '"reference":true' "$here/input"; then printf '%s\\n' ${own.map((line) => `'${line}'`).join(" ")}
else printf '%s\\n' ${program.map((line) => `'${line}'`).join(" ")}; fi`;

const OWN = [
  '{"count":2,"base":1}',
  '{"index":0,"value":["int","2"],"seconds":0.1}',
  '{"index":1,"value":["int","6"],"seconds":2}',
];

test("A program passes the tests whose values are right, and sees none of them", async () => {
  const cases: readonly (readonly [readonly string[], { readonly base: boolean; readonly plus: boolean }])[] =
    [
      [OWN, { base: true, plus: true }],
      [[OWN[0]!, OWN[1]!, '{"index":1,"value":["int","7"]}'], { base: true, plus: false }],
      [[OWN[0]!, OWN[1]!], { base: true, plus: false }],
      [[OWN[0]!, '{"index":0,"error":"ValueError"}', OWN[2]!], { base: false, plus: false }],
      [['{"failure":"SyntaxError"}'], { base: false, plus: false }],
      [["All tests passed", '{"done":true}', '{"index":0,"value":["int","x"]}'], {
        base: false,
        plus: false,
      }],
    ];
  for (const [program, verdict] of cases) {
    await withPrograms({ python3: PYTHON, bwrap: fakeBwrap(OWN, program) }, async (opened, folder) => {
      assert.ok(typeof opened !== "string", String(opened));
      const right = await rightValues(task, opened);
      assert.deepEqual(right.limits, [4, 8]);
      assert.deepEqual(await checkProgram("def double(x): ...", { task, right, sandbox: opened }), verdict);
      const input = JSON.parse(readFileSync(join(folder, "input"), "utf8"));
      assert.deepEqual([input.code, input.entry, input.limits], ["def double(x): ...", "double", [4, 8]]);
      assert.ok(!("values" in input) && !JSON.stringify(input).includes(task.solution));
      assert.match(
        readFileSync(join(folder, "arguments"), "utf8"),
        /^--unshare-all\n[^]*\n\/opt\/py\/bin\/python3\n-I\n-c\n/,
      );
    });
  }
});

test("A task whose own solution does not run is no verdict on a program", async () => {
  await withPrograms(
    { python3: PYTHON, bwrap: fakeBwrap(['{"failure":"NameError"}'], OWN) },
    async (opened) => {
      assert.ok(typeof opened !== "string");
      await assert.rejects(rightValues(task, opened), /the task's own solution does not run: NameError/);
    },
  );
});
