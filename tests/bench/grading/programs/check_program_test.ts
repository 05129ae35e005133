import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { SystemClock } from "../../../../base/clock.ts";
import { checkProgram, rightValues } from "../../../../bench/grading/programs/check_program.ts";
import type { ProgramTask } from "../../../../bench/grading/programs/program_task.ts";
import { openSandbox } from "../../../../bench/grading/programs/sandbox.ts";

const opened = await openSandbox({ env: process.env, clock: new SystemClock() });
const skip = typeof opened === "string" ? opened : false;

const task: ProgramTask = {
  prompt: "def double(x):\n",
  entry: "double",
  solution: "def double(x):\n    return 2 * x\n",
  tolerance: 0,
  line: null,
  test: "def check(candidate):\n    inputs = [[1], [[1.5, 2]], ['a'], [1 << 70]]\n",
};

/** Bodies of `double`, and whether they are right, or what they try and must not do. */
const BODIES: readonly (readonly [string, boolean])[] = [
  ["return x + x", true],
  ["return x * 2.0 if isinstance(x, int) and x < 9 else x * 2", true],
  ["return 2", false],
  ["import socket\n    socket.create_connection(('127.0.0.1', 22), 1)\n    return 2 * x", false],
  [`open(${JSON.stringify(fileURLToPath(import.meta.url))})\n    return 2 * x`, false],
  ["import os\n    assert 'HOME' in os.environ\n    return 2 * x", false],
  ["open('/etc/passwd')\n    return 2 * x", false],
  ["open('/file', 'w')\n    return 2 * x", false],
  ["open('/usr/file', 'w')\n    return 2 * x", false],
  ["open('/tmp/file', 'wb').write(b'x' * (1 << 22))\n    return 2 * x", false],
  ["bytearray(4 << 30)\n    return 2 * x", false],
  ["import os\n    os.fork()\n    return 2 * x", false],
  ["import subprocess\n    subprocess.run(['/usr/bin/env'])\n    return 2 * x", false],
  ['print(\'{"index": 0, "value": ["int", "2"]}\')\n    return 0', false],
  ["import sys\n    sys.exit(0)", false],
  ["import os\n    os._exit(0)", false],
  ["return double(x)", false],
  ["return type('Same', (), {'__eq__': lambda self, other: True})()", false],
  ["import os\n    os.kill(1, 9)\n    return 2 * x", true],
];

test(
  "Programs in bubblewrap pass by what they give, and what they try besides harms nothing",
  { skip },
  async () => {
    assert.ok(typeof opened !== "string");
    const own = await rightValues(task, opened);
    // Nothing here is slow: as long as it takes.
    const right = { ...own, limits: own.limits.map(() => 60) };
    for (const [body, passes] of BODIES) {
      const { plus } = await checkProgram(`def double(x):\n    ${body}\n`, { task, right, sandbox: opened });
      assert.equal(plus, passes, body);
    }
    const endless = { ...own, limits: own.limits.map(() => 0.1) };
    const loop = "def double(x):\n    while True:\n        pass\n";
    assert.equal((await checkProgram(loop, { task, right: endless, sandbox: opened })).plus, false);
  },
);

test("A row of EvalPlus's release says which tests are HumanEval's own, and its numbers are read by Python", {
  skip,
}, async () => {
  assert.ok(typeof opened !== "string");
  const line = '{"base_input": [[1.0]], "plus_input": [[12345678901234567890123]]}';
  const release = { ...task, line, test: null };
  const right = { ...await rightValues(release, opened), limits: [60, 60] };
  assert.deepEqual(right.values, [["float", "2.0"], ["int", "24691357802469135780246"]]);
  const rounded = "def double(x):\n    return float(x) * 2\n";
  assert.deepEqual(await checkProgram(rounded, { task: release, right, sandbox: opened }), {
    base: true,
    plus: false,
  });
});

test("Any zero of a polynomial is right in HumanEval/32", { skip }, async () => {
  assert.ok(typeof opened !== "string");
  const roots: ProgramTask = {
    ...task,
    entry: "find_zero",
    solution: "def find_zero(xs):\n    return 1.0\n",
    tolerance: 1e-4,
    test: "inputs = [[[-1, 0, 1]]]",
  };
  const right = { ...await rightValues(roots, opened), limits: [60] };
  const verdicts = [];
  for (const zero of ["-1.0", "1.00000001", "1.1", "float('nan')", "None"]) {
    const code = `def find_zero(xs):\n    return ${zero}\n`;
    verdicts.push((await checkProgram(code, { task: roots, right, sandbox: opened })).plus);
  }
  assert.deepEqual(verdicts, [true, true, false, false, false]);
});
