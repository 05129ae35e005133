import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { lstat, mkdir, mkdtemp, readdir, readFile, readlink, rm, stat, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { claimFile } from "../../../ml/hub/claim_file.ts";
import type { Environment } from "../../../ml/hub/environment.ts";
import { type Pulled, pullModel, type PullOptions, type PullProgress } from "../../../ml/hub/pull.ts";
import { weightFiles } from "../../../ml/hub/weight_files.ts";
import { systemTransport } from "../../../router/transport/system.ts";
import { findOnnxFiles } from "../../../scorer/embedders/onnx_files.ts";
import { COMMIT, FakeHub, type FakeHubOptions } from "./fake_hub.ts";

const text = (content: string) => ({ content: new TextEncoder().encode(content), large: false });
const weights = new Uint8Array(300_000).map((_, index) => (index * 7_919) >> 3);
const files: FakeHubOptions["files"] = {
  "README.md": text("# A model"),
  "config.json": text("{}"),
  "tokenizer.json": text('{"model":{}}'),
  "onnx/model.onnx": text("graph"),
  "onnx/model.onnx_data": { content: weights, large: true },
  "onnx/model_int8.onnx": { content: weights.subarray(0, 200_000), large: true },
};

interface World {
  readonly hub: FakeHub;
  readonly cache: string;
  /** The folder of the model in the cache. */
  readonly folder: string;
  readonly progress: PullProgress[];
  readonly clock: VirtualClock;
  pull(more?: Partial<PullOptions> & { file?: string; env?: Environment }): Promise<Pulled>;
}

async function withHub(
  options: Partial<FakeHubOptions>,
  main: (world: World) => Promise<void>,
): Promise<void> {
  const cache = await mkdtemp(join(tmpdir(), "canopy-hub-"));
  const hub = await FakeHub.start({ files, ...options });
  const transport = systemTransport();
  const progress: PullProgress[] = [];
  const clock = new VirtualClock();
  try {
    await main({
      hub,
      cache,
      folder: join(cache, "models--acme--model"),
      progress,
      clock,
      pull: ({ file, env, ...more } = {}) =>
        pullModel({
          transport,
          clock: noWait,
          signal: new AbortController().signal,
          env: { HF_HUB_CACHE: cache, HF_ENDPOINT: `${hub.endpoint}/`, ...env },
          model: "acme/model",
          revision: "main",
          choose: (names) => weightFiles("acme/model", names, file),
          onProgress: (state) => progress.push(state),
          ...more,
        }),
    });
  } finally {
    await hub.close();
    await transport.close();
    await rm(cache, { recursive: true });
  }
}

/** Pauses take no time: they end in their own turn. */
const noWait = { unixEpochMs: 0, now: () => 0, sleep: () => Promise.resolve(), timer: () => () => {} };

const sha256 = (content: Uint8Array) => createHash("sha256").update(content).digest("hex");

test("what the scorer needs lies in the cache as Hugging Face's own programs have it, and is found there", () =>
  withHub({}, async ({ pull, folder, cache, progress, hub }) => {
    const pulled = await pull();
    assert.deepEqual(pulled, {
      folder: join(folder, "snapshots", COMMIT),
      files: ["tokenizer.json", "config.json", "onnx/model_int8.onnx"],
      fetched: 3,
    });
    assert.equal(await readFile(join(folder, "refs", "main"), "utf8"), COMMIT);
    const link = join(pulled.folder, "onnx", "model_int8.onnx");
    assert.ok((await lstat(link)).isSymbolicLink());
    assert.equal(await readlink(link), `../../../blobs/${sha256(files["onnx/model_int8.onnx"]!.content)}`);
    assert.deepEqual(new Uint8Array(await readFile(link)), files["onnx/model_int8.onnx"]!.content);
    const found = await findOnnxFiles({ model: "acme/model", revision: "main" }, { HF_HUB_CACHE: cache });
    assert.deepEqual(found, { folder: pulled.folder, path: link });
    assert.deepEqual(progress.at(-1), {
      file: "onnx/model_int8.onnx",
      index: 3,
      files: 3,
      bytes: 200_000,
      size: 200_000,
    });
    assert.equal((await readdir(join(folder, "blobs"))).length, 3);
    const before = hub.requests.length;
    assert.equal((await pull()).fetched, 0);
    assert.ok(
      hub.requests.slice(before).every(({ line }) => line.startsWith("HEAD ") || line.includes("/api/")),
    );
  }));

test("weights outside of the ONNX file come with it, before it", () =>
  withHub({}, async ({ pull }) => {
    const pulled = await pull({ file: "onnx/model.onnx" });
    assert.deepEqual(pulled.files, [
      "tokenizer.json",
      "config.json",
      "onnx/model.onnx_data",
      "onnx/model.onnx",
    ]);
    assert.deepEqual(new Uint8Array(await readFile(join(pulled.folder, "onnx/model.onnx_data"))), weights);
  }));

test("the token is shown to the Hub and to nobody else", () =>
  withHub({}, async ({ pull, hub }) => {
    await pull({ env: { HF_TOKEN: "secret" } });
    for (const { server, authorization } of hub.requests) {
      assert.equal(authorization, server === "hub" ? "Bearer secret" : undefined);
    }
    assert.ok(hub.requests.some(({ server }) => server === "storage"));
  }));

test("a download that breaks off goes on where it ended, as often as it gets on", () =>
  withHub({ cutAfter: 30_000 }, async ({ pull, hub }) => {
    const pulled = await pull();
    assert.deepEqual(
      new Uint8Array(await readFile(join(pulled.folder, "onnx/model_int8.onnx"))),
      files["onnx/model_int8.onnx"]!.content,
    );
    const ranges = hub.requests.filter(({ server }) => server === "storage").map(({ range }) => range);
    assert.ok(ranges.length >= 7 && ranges.slice(1).every((range) => range !== undefined), `${ranges}`);
  }));

test("what an earlier program left is gone on with, and begun again where the server knows no ranges", async () => {
  for (const noRanges of [false, true]) {
    await withHub({ noRanges }, async ({ pull, folder, hub }) => {
      const content = files["onnx/model_int8.onnx"]!.content;
      await mkdir(join(folder, "blobs"), { recursive: true });
      await writeFile(join(folder, "blobs", `${sha256(content)}.incomplete`), content.subarray(0, 150_000));
      const pulled = await pull();
      assert.deepEqual(new Uint8Array(await readFile(join(pulled.folder, "onnx/model_int8.onnx"))), content);
      assert.deepEqual(
        hub.requests.filter(({ server }) => server === "storage").map(({ range }) => range),
        ["bytes=150000-"],
      );
    });
  }
});

test("a connection that breaks without anything new is given up after a few attempts", () =>
  withHub({ cutAfter: 0 }, async ({ pull, hub }) => {
    await assert.rejects(
      pull(),
      refusal("hub_unreachable", /check the network, or set HF_ENDPOINT to a mirror/),
    );
    assert.equal(hub.requests.filter(({ server }) => server === "storage").length, 5);
  }));

function refusal(code: string, message: RegExp): (error: unknown) => true {
  return (error) => {
    assert.ok(CanopyError.is(error), String(error));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, message);
    return true;
  };
}

test("a file with another checksum than the Hub says is thrown away", async () => {
  const spoilt = new Uint8Array(200_000).fill(1);
  await withHub({ spoilt }, async ({ pull, folder }) => {
    await assert.rejects(pull(), refusal("checksum_mismatch", /its checksum is .*, and the Hub says /));
    const names = await readdir(join(folder, "blobs"));
    assert.ok(
      !names.some((name) => name.startsWith(sha256(spoilt)) || name.endsWith(".incomplete")),
      `${names}`,
    );
  });
  await withHub({ spoilt: new Uint8Array(200_001) }, async ({ pull }) => {
    await assert.rejects(pull(), refusal("checksum_mismatch", /it is longer than 200000 bytes/));
  });
});

test("each refusal of the Hub is a sentence that says what to do", async () => {
  const cases: [FakeHubOptions["refusal"] & object, Environment, string, RegExp][] = [
    [
      { status: 401, code: "GatedRepo" },
      {},
      "model_gated",
      /HF_TOKEN is not set: ask for access on http.*acme\/model/,
    ],
    [{ status: 403 }, { HF_TOKEN: "x" }, "model_gated", /the token in HF_TOKEN has no access to it/],
    [
      { status: 401, code: "RepoNotFound" },
      {},
      "model_not_found",
      /no such model that can be seen without HF_TOKEN/,
    ],
    [
      { status: 404, code: "RepoNotFound" },
      { HF_TOKEN: "x" },
      "model_not_found",
      /has no such model: check its name/,
    ],
    [{ status: 404, code: "RevisionNotFound" }, {}, "model_not_found", /it has no revision main/],
    [{ status: 500 }, {}, "hub_unreachable", /answered 500/],
  ];
  for (const [refused, env, code, message] of cases) {
    await withHub({ refusal: refused }, async ({ pull }) => {
      await assert.rejects(pull({ env }), refusal(code, message));
    });
  }
});

test("without a network, or when nothing may be fetched, the sentence says so", () =>
  withHub({}, async ({ pull, hub, cache }) => {
    await assert.rejects(
      pull({ env: { HF_HUB_OFFLINE: "1" } }),
      refusal("hub_offline", /HF_HUB_OFFLINE forbids it$/),
    );
    assert.equal(hub.requests.length, 0);
    await assert.rejects(
      pull({ env: { HF_ENDPOINT: "http://127.0.0.1:1" } }),
      refusal(
        "hub_unreachable",
        /Cannot fetch acme\/model from http:\/\/127\.0\.0\.1:1: .*check the network/,
      ),
    );
    await writeFile(join(cache, "file"), "");
    await assert.rejects(
      pull({ env: { HF_HUB_CACHE: join(cache, "file") } }),
      refusal("cannot_write", /Cannot fetch acme\/model: /),
    );
  }));

test("a full disk is told by its name, and the rest can be fetched later", () =>
  withHub({}, async ({ pull }) => {
    const full = Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
    await assert.rejects(
      pull({
        onProgress: ({ bytes }) => {
          if (bytes > 50_000) throw full;
        },
      }),
      refusal("disk_full", /is full: make room and run it again, which goes on where it ended/),
    );
    assert.equal((await pull()).fetched, 1);
  }));

test("stopping ends with the reason of the one who stops, and what has come is kept", () =>
  withHub({}, async ({ pull, folder }) => {
    const stop = new AbortController();
    const reason = new Error("stopped");
    await assert.rejects(
      pull({
        signal: stop.signal,
        onProgress: ({ bytes }) => {
          if (bytes > 50_000) stop.abort(reason);
        },
      }),
      reason,
    );
    assert.ok((await readdir(join(folder, "blobs"))).some((name) => name.endsWith(".incomplete")));
  }));

test("files are chosen: the fastest on a CPU, the one that is named, the only one; else a sentence", () => {
  const choose = (names: string[], file?: string) => weightFiles("m", names, file);
  assert.deepEqual(choose(["tokenizer.json", "model.onnx", "model_quantized.onnx"]), [
    "tokenizer.json",
    "model_quantized.onnx",
  ]);
  assert.deepEqual(choose(["onnx/tokenizer.json", "tokenizer.json", "onnx/dynamic_uint8.onnx"]), [
    "onnx/tokenizer.json",
    "onnx/dynamic_uint8.onnx",
  ]);
  const several = ["tokenizer.json", "onnx/model.onnx", "onnx/model_q4.onnx", "onnx/model_fp16.onnx"];
  assert.equal(choose(several).at(-1), "onnx/model.onnx");
  assert.equal(choose(["generation_config.json", ...several]).at(-1), "onnx/model_q4.onnx");
  const refused = (names: string[], message: RegExp, file?: string) =>
    assert.throws(() => choose(names, file), refusal("weights_unavailable", message));
  refused(["model.safetensors"], /m has no ONNX file: choose a model with one/);
  refused(["a.onnx", "b.onnx"], /several ONNX files of unknown names: name one with --file: a.onnx, b.onnx/);
  refused(["model.onnx", "tokenizer.json"], /m has no file x.onnx: there are model.onnx/, "x.onnx");
  refused(["model.onnx"], /m has no tokenizer.json/);
});

test("two that fetch the same files at once have both all of them, and nothing else is left", () =>
  withHub({}, async ({ pull, folder }) => {
    const [one, two] = await Promise.all([pull(), pull()]);
    assert.deepEqual(one.files, two.files);
    const link = join(one.folder, "onnx", "model_int8.onnx");
    assert.deepEqual(new Uint8Array(await readFile(link)), files["onnx/model_int8.onnx"]!.content);
    assert.ok((await lstat(link)).isSymbolicLink());
    assert.equal((await readdir(join(folder, "blobs"))).length, 3);
  }));

test("a part that somebody else may still write to is left alone; what nobody writes to is gone on with", () =>
  withHub({}, async ({ pull, folder, hub }) => {
    const { content } = files["onnx/model_int8.onnx"]!;
    const partial = join(folder, "blobs", `${sha256(content)}.incomplete`);
    const mark = (by: object) => writeFile(`${partial}.by`, JSON.stringify(by));
    const pulled = async (clock?: Pick<PullOptions, "clock">) => {
      const before = hub.requests.length;
      await rm(join(folder, "blobs", sha256(content)), { force: true });
      await rm(join(folder, "snapshots"), { recursive: true, force: true });
      await pull(clock);
      const { range } = hub.requests.slice(before).find(({ line }) => line.startsWith("GET /onnx/"))!;
      return { range, left: await readFile(partial).then(({ length }) => length, () => undefined) };
    };
    await mkdir(join(folder, "blobs"), { recursive: true });
    await writeFile(partial, content.subarray(0, 1_000));
    const [aside, goneOn] = [{ range: undefined, left: 1_000 }, { range: "bytes=1000-", left: undefined }];
    const claim = await claimFile(partial, noWait);
    assert.deepEqual(await pulled(), aside, "a process that lives");
    await claim?.release();
    await mark({ host: "elsewhere", pid: 1 });
    assert.deepEqual(await pulled(), aside, "another machine's, lately");
    const { mtimeMs } = await stat(`${partial}.by`);
    const clock = { ...noWait, unixEpochMs: mtimeMs + 600_001 };
    assert.deepEqual(await pulled({ clock }), goneOn, "another machine's, that nobody has seen for long");
    await writeFile(partial, content.subarray(0, 1_000));
    // As a container finds it that was started again: its processes have the numbers of before.
    await mark({ host: hostname(), pid: process.pid, born: "before" });
    assert.deepEqual(await pulled(), goneOn, "one of an earlier process");
    assert.deepEqual((await readdir(join(folder, "blobs"))).filter((name) => name.includes(".")), []);
  }));
