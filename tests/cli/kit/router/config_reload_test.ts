import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { configureSync, resetSync } from "@logtape/logtape";
import { VirtualClock } from "../../../../base/clock.ts";
import { CanopyError } from "../../../../base/errors.ts";
import { MetricsText } from "../../../../base/prometheus.ts";
import { ConfigOrigins } from "../../../../cfgs/load/config_origins.ts";
import { loadCheckedConfig } from "../../../../cfgs/load/load.ts";
import type { Config } from "../../../../cfgs/schema/config.ts";
import { ConfigReload } from "../../../../cli/kit/router/config_reload.ts";
import { ReloadMetrics } from "../../../../router/http/metrics/reload_metrics.ts";
import { fakeIo } from "../../fake_io.ts";

/** A reload of a file, before a router that keeps what it is told. */
interface Stage {
  readonly folder: string;
  readonly path: string;
  readonly clock: VirtualClock;
  readonly applied: Config[];
  readonly lines: string[];
  hangUp(): boolean;
  metrics(): string;
  /** Where values come from, as the router was told. */
  readonly origins: ConfigOrigins;
  /** Makes the router refuse what comes. */
  refuse: string | undefined;
}

const FIRST = {
  server: { port: 1234 },
  models: { a: { model: "org/a", engine: "vllm", workers: ["http://a:1"] } },
};

async function onStage(
  use: (stage: Stage) => Promise<void> | void,
  { path = "canopy.json", whileStarting = () => {} }: {
    readonly path?: string;
    readonly whileStarting?: (stage: Stage) => void;
  } = {},
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "canopy-reload-"));
  const end = new AbortController();
  const clock = new VirtualClock();
  const io = fakeIo({ clock });
  const lines: string[] = [];
  const write = ({ level, message }: { level: string; message: readonly unknown[] }) =>
    void lines.push(`${level}: ${message.join("")}`);
  configureSync({
    reset: true,
    sinks: { all: write },
    loggers: [{ category: "canopy", lowestLevel: "info", sinks: ["all"] }, {
      category: ["logtape", "meta"],
      sinks: [],
    }],
  });
  try {
    const file = join(folder, path);
    const reloads = new ReloadMetrics(clock);
    const origins = new ConfigOrigins();
    const stage: Stage = {
      folder,
      path: file,
      clock,
      applied: [],
      lines,
      origins,
      hangUp: () => io.hangUp(),
      metrics: () => {
        const text = new MetricsText();
        reloads.write(text);
        return text.toString();
      },
      refuse: undefined,
    };
    const reconfigure = (config: Config) => {
      if (stage.refuse !== undefined) {
        throw new CanopyError(stage.refuse, { code: "invalid_config", status: 400 });
      }
      stage.applied.push(config);
    };
    writeFileSync(file, JSON.stringify(FIRST));
    const overrides = [{ path: "server.max_running", value: "7", origin: "--set server.max_running" }];
    const env = { CANOPY_SERVER_MAX_QUEUED: "9" };
    const read = () => loadCheckedConfig({ path: file, env, overrides });
    const first = read();
    origins.read(first.provenance);
    whileStarting(stage);
    const reload = new ConfigReload({
      source: { read, files: [file] },
      config: first.config,
      router: { reconfigure, reloads, origins },
      io,
    });
    void reload.run(end.signal);
    await use(stage);
  } finally {
    end.abort();
    resetSync();
    rmSync(folder, { recursive: true });
  }
}

function write({ path }: Stage, change: Record<string, unknown>): void {
  writeFileSync(path, JSON.stringify({ ...FIRST, ...change }));
}

test("SIGHUP reads the file again, with flags and variables laid over it as before", async () => {
  await onStage((stage) => {
    write(stage, { server: { port: 1234, api_keys: ["k"], max_running: 3 } });
    assert.equal(stage.hangUp(), true);
    const [{ server }] = stage.applied as [Config];
    assert.deepEqual([server.api_keys, server.max_running, server.max_queued], [["k"], 7, 9]);
    assert.match(
      stage.lines.join("\n"),
      /info: .*canopy\.json was read again, in effect for new requests: server\.api_keys$/,
    );
    assert.match(stage.metrics(), /canopy_config_reloads_total\{result="applied"\} 1/);
    assert.match(stage.metrics(), /canopy_config_last_reload_successful 1/);
  });
});

test("a bad file is refused with its problems, and told by the metrics; a good one then counts", async () => {
  await onStage((stage) => {
    const hash = () => /canopy_config_info\{hash="([0-9a-f]{12})"\} 1/.exec(stage.metrics())?.[1];
    const before = hash();
    assert.ok(before);
    writeFileSync(stage.path, "{");
    stage.hangUp();
    write(stage, { models: { a: { engine: "vllm" } } });
    stage.hangUp();
    assert.deepEqual(stage.applied, []);
    assert.equal(hash(), before);
    assert.match(stage.lines[0]!, /^error: The configuration stays as it was: .*canopy\.json:1:/);
    assert.match(stage.lines[1]!, /^error: The configuration stays as it was: .*models\.a\.model/);
    assert.match(stage.metrics(), /result="refused"\} 2/);
    assert.match(stage.metrics(), /canopy_config_last_reload_successful 0/);
    write(stage, { server: { port: 1234, audit: true } });
    stage.hangUp();
    assert.equal(stage.applied.length, 1);
    assert.match(stage.metrics(), /canopy_config_last_reload_successful 1/);
    assert.notEqual(hash(), before);
  });
});

test("what the router refuses stays out, and is compared with what is in effect the next time", async () => {
  await onStage((stage) => {
    stage.refuse = "graphs.moa cannot be run";
    write(stage, { server: { port: 1234, audit: true } });
    stage.hangUp();
    assert.deepEqual(stage.lines, ["error: The configuration stays as it was: graphs.moa cannot be run"]);
    stage.refuse = undefined;
    stage.hangUp();
    assert.match(stage.lines[1]!, /in effect for new requests: server\.audit$/);
  });
});

test("the store of limits waits for a start; the limits beside it do not", async () => {
  await onStage((stage) => {
    const limits = { default: { requests_per_minute: 3 }, store: { url: "redis://here" } };
    write(stage, { server: { port: 1234, limits } });
    stage.hangUp();
    assert.deepEqual(stage.applied[0]!.server.limits, {
      default: limits.default,
      keys: {},
      store: undefined,
    });
    assert.match(stage.lines.join("\n"), /server\.limits\.store changed: takes effect at the next start/);
  });
});

test("settings that need a start are named in one line and stay as they are; the others are in effect", async () => {
  await onStage((stage) => {
    write(stage, { server: { port: 9, host: "0.0.0.0", audit: true }, scorer: { threads: 2 } });
    stage.hangUp();
    const { server } = stage.applied[0]!;
    assert.deepEqual([server.port, server.host, server.audit], [1234, "127.0.0.1", true]);
    assert.match(
      stage.lines[1]!,
      /^warning: server\.host, server\.port, scorer changed: takes effect at the next start$/,
    );
  });
});

test("where values come from is told anew with each reading, but for settings that stay as they are", async () => {
  await onStage((stage) => {
    const lineOf = (...path: string[]) => {
      const from = stage.origins.of(path);
      return from?.kind === "file" ? from.location.line : from?.kind === "default" ? "default" : from?.name;
    };
    const all = () => [
      lineOf("server", "port"),
      lineOf("server", "audit"),
      lineOf("server", "max_running"),
      lineOf("server", "max_queued"),
    ];
    assert.deepEqual(all(), [1, "default", "--set server.max_running", "CANOPY_SERVER_MAX_QUEUED"]);
    writeFileSync(
      stage.path,
      `{"models": ${JSON.stringify(FIRST.models)},\n"server": {\n"audit": true,\n"port": 9}}`,
    );
    stage.hangUp();
    assert.deepEqual(all(), [1, 3, "--set server.max_running", "CANOPY_SERVER_MAX_QUEUED"]);
    writeFileSync(stage.path, "{");
    stage.hangUp();
    assert.deepEqual(all(), [1, 3, "--set server.max_running", "CANOPY_SERVER_MAX_QUEUED"]);
  });
});

test("a changed file is read again once it has been quiet, however it was replaced", async () => {
  await onStage(async (stage) => {
    await stage.clock.advance(stage.clock.now() + 10_000);
    assert.equal(stage.lines.length, 0);
    writeFileSync(stage.path, '{"server":');
    await stage.clock.advance(stage.clock.now() + 2_000);
    write(stage, { server: { port: 1234, audit: true } });
    await stage.clock.advance(stage.clock.now() + 2_000);
    assert.equal(stage.applied.length, 0, "it may still be written");
    await stage.clock.advance(stage.clock.now() + 2_000);
    assert.equal(stage.applied.length, 1, stage.lines.join("\n"));
    assert.equal(stage.lines.filter((line) => line.startsWith("error")).length, 0);
    // As editors do.
    const beside = join(stage.folder, "canopy.json~");
    writeFileSync(
      beside,
      JSON.stringify({ ...FIRST, server: { port: 1234, audit: false, max_body_bytes: 5 } }),
    );
    renameSync(beside, stage.path);
    await stage.clock.advance(stage.clock.now() + 4_000);
    assert.equal(stage.applied[1]?.server.max_body_bytes, 5);
    write(stage, { server: { port: 1234, audit: false, max_body_bytes: 5 } });
    await stage.clock.advance(stage.clock.now() + 10_000);
    assert.equal(stage.applied.length, 2, "the same content is no change");
  });
});

test("a change that was made while the router started is in effect soon after", async () => {
  const changed = { server: { port: 1234, max_running: 3, api_keys: ["k"] } };
  await onStage(async ({ clock, applied, lines }) => {
    await clock.advance(4_500);
    assert.deepEqual(applied.map(({ server }) => server.api_keys), [["k"]]);
    assert.match(lines.join("\n"), /was read again, in effect for new requests: server\.api_keys/);
    await clock.advance(20_000);
    assert.equal(applied.length, 1);
  }, { whileStarting: (stage) => write(stage, changed) });
  await onStage(async ({ clock, applied, lines }) => {
    await clock.advance(20_000);
    assert.deepEqual([applied, lines], [[], []], "what is as it was is not read aloud");
  });
});

test("a file behind a link that is swapped, as Kubernetes does with a ConfigMap, is read again", async () => {
  await onStage(async (stage) => {
    const version = (name: string, server: unknown) => {
      mkdirSync(join(stage.folder, name));
      writeFileSync(join(stage.folder, name, "canopy.json"), JSON.stringify({ ...FIRST, server }));
    };
    version("v1", { port: 1234 });
    version("v2", { port: 1234, api_keys: ["k"] });
    rmSync(stage.path);
    symlinkSync("v1", join(stage.folder, "..data"));
    symlinkSync(join("..data", "canopy.json"), stage.path);
    await stage.clock.advance(stage.clock.now() + 10_000);
    assert.equal(stage.applied.length, 0, "the same content as before");
    symlinkSync("v2", join(stage.folder, "..data_tmp"));
    renameSync(join(stage.folder, "..data_tmp"), join(stage.folder, "..data"));
    await stage.clock.advance(stage.clock.now() + 4_000);
    assert.deepEqual(stage.applied[0]?.server.api_keys, ["k"]);
  });
});

test("without a file SIGHUP says that there is nothing to read", async () => {
  await onStage((stage) => {
    const clock = new VirtualClock();
    const io = fakeIo({ clock });
    const router = {
      reconfigure: () => assert.fail("nothing to apply"),
      reloads: new ReloadMetrics(clock),
      origins: new ConfigOrigins(),
    };
    const config = loadCheckedConfig({ path: stage.path, env: {} }).config;
    void new ConfigReload({ source: undefined, config, router, io }).run(new AbortController().signal);
    io.hangUp();
    assert.match(
      stage.lines.join("\n"),
      /^warning: SIGHUP: there is nothing to read again, all settings come from the command line/,
    );
  });
});
