import assert from "node:assert/strict";
import { test } from "node:test";
import { demoCommand } from "../../../cli/demo/demo.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { fakeIo } from "../fake_io.ts";
import { withServedDemo, withSystem } from "../served.ts";

test("the demonstration asks three questions, compares both graphs, and ends with 0", async () => {
  await withSystem(async (io) => {
    assert.equal(await runCommand([demoCommand], ["demo", "--speedup", "500"], io), 0, io.err.text);
    const { text } = io.out;
    assert.ok(!text.includes("\x1b"));
    assert.ok(text.split("\n").every((line) => line.length <= 80), "lines fit 80 columns");
    assert.match(text, /^The router is listening on http:\/\/127\.0\.0\.1:\d+$/m);
    assert.match(text, /^Simulated engines \(500 times as fast as H200 GPUs\)/m);
    for (const number of [1, 2, 3]) assert.match(text, new RegExp(`^Question ${number} of 3: `, "m"));
    // Every agent of both graphs, once for each question.
    assert.equal(text.match(/^ {2}moa l\d\.c\d\.a\d \(\d+b\) done: \d+ tokens in /gm)?.length, 3 * 13);
    assert.equal(text.match(/^ {2}moa-dense l\d\.c\d\.a\d \(\d+b\) done: \d+ tokens in /gm)?.length, 3 * 19);
    assert.equal(text.match(/^Answer after \d/gm)?.length, 3);
    assert.match(text, /The answer is 18\./);
    assert.match(text, /#1 dense 9-9-1 +#2 tree 9-3-1/);
    assert.match(text, /^all: calls +57 +39 +1\.46×$/m);
    assert.equal(
      text.match(/^[123] #[12] +[\d,]+ +l1\.c\d\.a\d \d+b [\d,]+ +l2\.c1\.a\d \d+b [\d,]+ +l3\.c1\.a1 /gm)
        ?.length,
      6,
    );
    assert.match(text, /^Simulated: the engines, their answers/m);
    assert.match(text, /^Real: the router/m);
  });
});

test("on a terminal the demonstration draws the tree", async () => {
  await withSystem(async (io) => {
    const args = [
      "demo",
      "--speedup",
      "40",
      "--question",
      "How many positive divisors does the number 360 have?",
    ];
    assert.equal(await runCommand([demoCommand], args, io), 0, io.err.text);
    // 14 lines up, then everything below is erased.
    assert.ok(io.out.text.includes("\x1b[14A\r\x1b[J"));
    assert.match(io.out.text, /│ ├ l1\.c1\.a1/);
    assert.match(io.out.text, /13\/13 done/);
    assert.match(io.out.text, /19\/19 done/);
    assert.match(io.out.text, /know the built-in questions only/);
  }, { terminal: true, rows: 50 });
});

test("the demonstration uses a real endpoint when it is given one, and then no figure is simulated", async () => {
  await withServedDemo((url) =>
    withSystem(async (io) => {
      const args = [
        "demo",
        "--url",
        url,
        "--model",
        "4b",
        "--model",
        "8b",
        "--question",
        "Why?",
        "--max-tokens",
        "8",
      ];
      assert.equal(await runCommand([demoCommand], args, io), 0, io.err.text);
      assert.match(io.out.text, /^Models: 4b, 8b\.$/m);
      assert.match(io.out.text, /^all: calls +19 +13 /m);
      assert.doesNotMatch(io.out.text, /simulated/i);
    })
  );
});

test("a demonstration that only serves lists its models and drains when it is asked to stop", async () => {
  const code = await withServedDemo((url) =>
    withSystem(async (io) => {
      const response = await io.transport.send(
        { method: "GET", url: `${url}/v1/models`, headers: {} },
        io.stop,
      );
      let text = "";
      for await (const piece of response.body) text += new TextDecoder().decode(piece);
      const names = JSON.parse(text).data.map((model: { id: string }) => model.id);
      assert.deepEqual(names, ["moa", "moa-dense", "4b", "8b", "32b"]);
    })
  );
  assert.equal(code, 0);
});

test("an endpoint that is not there is said once, before anything is asked; so is a model that it does not list", async () => {
  const io = fakeIo();
  const args = ["demo", "--url", "http://127.0.0.1:1/v1", "--model", "x"];
  assert.equal(await runCommand([demoCommand], args, io), 1);
  assert.equal(
    io.err.text,
    "canopy demo: Cannot reach a server at http://127.0.0.1:1: start it, or correct --url\n",
  );
  assert.equal(io.out.text, "");
  for (const url of ["ftp://host", "http://"]) {
    const wrong = fakeIo();
    assert.equal(await runCommand([demoCommand], ["demo", "--url", url, "--model", "x"], wrong), 1);
    assert.equal(
      wrong.err.text,
      `canopy demo: Cannot use the URL "${url}": write it like http://127.0.0.1:8000\n`,
    );
  }
  await withServedDemo((url) =>
    withSystem(async (io) => {
      const args = ["demo", "--url", url, "--model", "5b", "--question", "Why?", "--max-tokens", "8"];
      assert.equal(await runCommand([demoCommand], args, io), 1);
      assert.equal(
        io.err.text,
        `canopy demo: The server at ${url} has no model 5b: it lists moa, moa-dense, 4b, 8b, 32b; correct --model\n`,
      );
      assert.equal(io.out.text, "");
    })
  );
});

test("wrong options of the demonstration are wrong usage", async () => {
  for (
    const [args, message] of [
      [["--model", "x"], /Option --model needs --url/],
      [["--url", "http://127.0.0.1:1"], /Option --url needs --model/],
      [
        ["--url", "http://127.0.0.1:1", "--model", "x", "--speedup", "2"],
        /Option --speedup is for simulated engines/,
      ],
      [["--serve-only", "--question", "Why?"], /Option --question asks, and --serve-only only serves/],
      [["--speedup", "0"], /Option --speedup must be a number of at least 0\.01/],
    ] as const
  ) {
    const io = fakeIo();
    assert.equal(await runCommand([demoCommand], ["demo", ...args], io), 2);
    assert.match(io.err.text, message);
  }
});
