import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { DataSet } from "../../../bench/datasets/data_set.ts";
import { type HubAccess, loadFiles, loadPublished } from "../../../bench/datasets/load_questions.ts";
import { ownQuestion, ownRow, ownSet } from "../../../bench/datasets/own_questions.ts";
import { GSM8K } from "../../../bench/datasets/published/gsm8k.ts";
import { systemTransport } from "../../../router/transport/system.ts";
import { FakeHub, type FakeHubOptions } from "../../ml/hub/fake_hub.ts";

const COMMIT = "0123456789abcdef0123456789abcdef01234567";
const jsonl = '{"question":"One?","answer":"so\\n#### 1"}\n{"question":"Two?","answer":"so\\n#### 2,000"}\n';
const bytes = new TextEncoder().encode(jsonl);
const SHA256 = "9f3a6d3e42d1a4f57e8f7e7c08f3d4e9c5e0a6c9d2d7e4b1a0f1c2d3e4f5a6b7";
const set: DataSet = {
  ...GSM8K,
  hub: "acme/model",
  revision: COMMIT,
  files: [{ path: "main/test.jsonl" }],
  count: 2,
};

async function withFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "canopy-questions-"));
  try {
    await use(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function withHub(
  options: Partial<FakeHubOptions>,
  use: (access: HubAccess, hub: FakeHub) => Promise<void>,
): Promise<void> {
  await withFolder(async (cache) => {
    const hub = await FakeHub.start({
      files: { "main/test.jsonl": { content: bytes, large: true } },
      ...options,
    });
    const transport = systemTransport();
    try {
      await use({
        transport,
        clock: { unixEpochMs: 0, now: () => 0, sleep: () => Promise.resolve(), timer: () => () => {} },
        signal: new AbortController().signal,
        env: { HF_HUB_CACHE: cache, HF_ENDPOINT: hub.endpoint, HF_TOKEN: "hf_secret" },
        onProgress: () => {},
      }, hub);
    } finally {
      await hub.close();
      await transport.close();
    }
  });
}

test("A data set comes from the Hub at its revision, lies in the cache as theirs do, and is then read without a network", () =>
  withHub({}, async (access, hub) => {
    const loaded = await loadPublished(set, "canopy", access);
    assert.deepEqual(loaded.questions.map(({ answer }) => answer), ["1", "2,000"]);
    assert.equal(loaded.source, "acme/model at 0123456789ab");
    assert.equal(hub.requests[0]?.line, `GET /api/datasets/acme/model/revision/${COMMIT}`);
    assert.equal(hub.requests[0]?.authorization, "Bearer hf_secret");
    assert.deepEqual(await readdir(access.env["HF_HUB_CACHE"]!), ["datasets--acme--model"]);
    const before = hub.requests.length;
    const offline = { ...access, env: { ...access.env, HF_HUB_OFFLINE: "1" } };
    assert.deepEqual(await loadPublished(set, "canopy", offline), loaded);
    assert.equal(hub.requests.length, before);
  }));

test("A data set's file with other bytes, or with fewer questions, is refused", () =>
  withHub({}, async (access) => {
    const pinned = { ...set, files: [{ path: "main/test.jsonl", sha256: SHA256 }] };
    await assert.rejects(loadPublished(pinned, "canopy", access), /its SHA-256 is [0-9a-f]{64}, and that of/);
    await assert.rejects(
      loadPublished({ ...set, count: 1319 }, "canopy", access),
      /acme\/model has 2 questions at .*, and GSM8K has 1319/,
    );
  }));

test("A data set whose authors ask for consent says where to ask, and that HF_TOKEN is missing", () =>
  withHub({ refusal: { status: 401, code: "GatedRepo" } }, async (access) => {
    const without = { ...access, env: { ...access.env, HF_TOKEN: "" } };
    await assert.rejects(loadPublished(set, "canopy", without), (error: Error & { code?: string }) => {
      assert.equal(error.code, "dataset_gated");
      assert.match(error.message, /HF_TOKEN is not set: ask for access on http:.*\/datasets\/acme\/model/);
      return true;
    });
    const offline = { ...access, env: { ...access.env, HF_HUB_OFFLINE: "1" } };
    await assert.rejects(loadPublished(set, "canopy", offline), /HF_HUB_OFFLINE forbids it/);
  }));

test("A folder may hold the published files, or others of the same shape", () =>
  withFolder(async (folder) => {
    await assert.rejects(loadFiles(set, join(folder, "none"), "s"), /there is no such file or folder/);
    await assert.rejects(loadFiles(set, folder, "s"), /has no file with questions/);
    await writeFile(join(folder, "extra.json"), '[{"question":"Zero?","answer":"#### 0"}]');
    assert.equal((await loadFiles(set, folder, "s")).questions.length, 1);
    await mkdir(join(folder, "main"));
    await writeFile(join(folder, "main", "test.jsonl"), bytes);
    assert.equal((await loadFiles(set, folder, "s")).questions.length, 2);
    await writeFile(join(folder, "bad.jsonl"), `${jsonl}{"question"`);
    await assert.rejects(loadFiles(set, join(folder, "bad.jsonl"), "s"), /bad\.jsonl: line 3 is no JSON/);
  }));

test("Questions of one's own are read from JSONL and written in the same form", () =>
  withFolder(async (folder) => {
    const rows = [
      { question: "6 · 7?", answer: "42", grader: "number" },
      { id: "x", question: "Which?", answer: "B", options: ["one", "two"], subject: "logic" },
      { question: "Capital of Peru?", answer: "Lima" },
    ];
    const path = join(folder, "own.jsonl");
    await writeFile(path, rows.map((row) => JSON.stringify(row)).join("\n"));
    const { questions } = await loadFiles(ownSet(path), path, "s");
    assert.deepEqual(questions.map(({ id, grader }) => `${id} ${grader}`), [
      "0 number",
      "x choice",
      "2 exact",
    ]);
    assert.deepEqual(questions.map((question) => ownQuestion(ownRow(question)!, { index: 9 })), questions);
    const refused: readonly (readonly [Readonly<Record<string, unknown>>, RegExp])[] = [
      [
        { question: "?", answer: "1", grader: "judge" },
        /its grader must be one of .*: current value is "judge"/,
      ],
      [
        { question: "?", answer: "C", options: ["a", "b"] },
        /must be one of the letters A, B: current value is "C"/,
      ],
      [{ question: "?", answer: " " }, /its answer is empty/],
      [{ answer: "1" }, /no text in question/],
    ];
    for (const [row, message] of refused) assert.throws(() => ownQuestion(row, { index: 0 }), message);
    await writeFile(path, '{"id":"a","question":"?","answer":"1"}\n'.repeat(2));
    await assert.rejects(
      loadFiles(ownSet(path), path, "s"),
      /question 2 .*its id "a" is that of another one/,
    );
  }));
