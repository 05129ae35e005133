import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import type { PlannedEngine } from "../../../launcher/plan/launch_plan.ts";
import { DEFAULT_RULES, type SuperviseRules } from "../../../launcher/supervise/supervise_rules.ts";
import { Supervisor, type SupervisorOptions } from "../../../launcher/supervise/supervisor.ts";
import { type FakeLife, FakeProcesses, plannedEngine, planOf } from "../fake_processes.ts";

interface Stage {
  readonly clock: VirtualClock;
  readonly processes: FakeProcesses;
  readonly supervisor: Supervisor;
  /** Phases of each engine, in order, without repetitions. */
  readonly phases: Map<string, string[]>;
  readonly news: string[];
}

async function onStage(
  engines: readonly PlannedEngine[],
  lives: Readonly<Record<string, readonly FakeLife[]>>,
  use: (stage: Stage) => Promise<void>,
  options: {
    rules?: Partial<SuperviseRules>;
    taken?: readonly number[];
    freeHostBytes?: number;
    headersOf?: SupervisorOptions["headersOf"];
  } = {},
): Promise<void> {
  const clock = new VirtualClock();
  const processes = new FakeProcesses(clock, lives);
  const phases = new Map<string, string[]>();
  const supervisor = new Supervisor({
    plan: planOf(...engines),
    processes,
    clock,
    transport: processes,
    env: {},
    rules: { ...DEFAULT_RULES, ...options.rules },
    headersOf: options.headersOf,
    logFolder: "/logs",
    freeHostBytes: () => options.freeHostBytes ?? Infinity,
    portProblem: (_, port) => Promise.resolve(options.taken?.includes(port) ? "taken" : undefined),
    onChange: ({ name, phase }) => {
      const list = phases.get(name) ?? [];
      if (list.at(-1) !== phase) list.push(phase);
      phases.set(name, list);
    },
  });
  const news: string[] = [];
  supervisor.tell({
    up: (engine) => news.push(`${clock.now()} up ${engine.name}`),
    down: (engine, reason) => news.push(`${clock.now()} down ${engine.name}: ${reason.split("\n")[0]}`),
  });
  await clock.run(async () => {
    try {
      await use({ clock, processes, supervisor, phases, news });
    } finally {
      await supervisor.stop();
    }
  }, { limitMs: 24 * 3600_000 });
  assert.deepEqual(processes.running, [], "nothing is left running");
}

const never = new AbortController().signal;
const failure = async (start: Promise<void>): Promise<string> => {
  const error = await start.then(() => undefined, (thrown: unknown) => thrown);
  assert.ok(CanopyError.is(error), String(error));
  return error.message;
};

test("an engine is ready when it has generated a token, and its phases follow its log", async () => {
  const lines = [
    [100, "(EngineCore) INFO Starting to load model org/model..."],
    [900, "Loading safetensors checkpoint shards:  50% Completed | 1/2"],
    [2000, "Capturing CUDA graphs (decode, FULL):  10%|█"],
    [2900, "INFO:     Application startup complete."],
  ] as const;
  await onStage([plannedEngine("a", 1000)], { a: [{ lines, healthyAtMs: 3000 }] }, async (stage) => {
    await stage.supervisor.start(never);
    assert.equal(stage.clock.now(), 3000);
    assert.deepEqual(stage.phases.get("a"), [
      "waiting",
      "starting",
      "loading",
      "capturing",
      "warming",
      "ready",
    ]);
    const [status] = stage.supervisor.statuses;
    assert.deepEqual([status?.pid, status?.url, status?.logFile], [
      100,
      "http://127.0.0.1:1000",
      "/logs/a.log",
    ]);
    await stage.supervisor.stop();
    assert.deepEqual(stage.processes.signals.map(([, name]) => name), ["SIGTERM"]);
    assert.deepEqual(stage.phases.get("a")?.slice(-2), ["stopping", "stopped"]);
  });
});

test("a server that answers its health check and fails to generate is not ready", async () => {
  await onStage([plannedEngine("a", 1000)], { a: [{ healthyAtMs: 0, tokenStatus: 500 }] }, async (stage) => {
    assert.equal(
      await failure(stage.supervisor.start(never)),
      "a: not ready after 60 s without progress (warming; a: a request for one token was answered with 500: " +
        '{"error":"no"}): allow more with --ready-timeout; it wrote nothing to /logs/a.log',
    );
  }, { rules: { readyTimeoutMs: 60_000 } });
});

test("an engine that wants a key is asked with that of its model", async () => {
  await onStage([plannedEngine("a", 1000)], { a: [{ healthyAtMs: 0, apiKey: "sesame" }] }, async (stage) => {
    await stage.supervisor.start(never);
    assert.deepEqual(stage.phases.get("a")?.at(-1), "ready");
  }, { headersOf: ({ modelKey }) => ({ authorization: modelKey === "a" ? "Bearer sesame" : "" }) });
});

test("engines on different GPUs start at once, those that share one in the plan's order", async () => {
  const engines = [
    plannedEngine("a", 1, { gpus: [0, 1] }),
    plannedEngine("b", 2, { gpus: [1] }),
    plannedEngine("c", 3, { gpus: [1, 2] }),
    plannedEngine("d", 4, { gpus: [2] }),
    plannedEngine("e", 5, { gpus: [3] }),
  ];
  const life = [{ healthyAtMs: 10_000 }];
  await onStage(engines, { a: life, b: life, c: life, d: life, e: life }, async (stage) => {
    await stage.supervisor.start(never);
    // d shares a GPU with c, which waits for b, which waits for a.
    assert.deepEqual(stage.processes.starts, [
      ["a", 0],
      ["e", 0],
      ["b", 10_000],
      ["c", 20_000],
      ["d", 30_000],
    ]);
  });
});

test("what is loaded at once fits the host's memory, and one engine alone may always start", async () => {
  const shape = { weightBytes: 60 } as unknown;
  const heavy = (name: string, port: number, gpu: number) => ({
    ...plannedEngine(name, port, { gpus: [gpu] }),
    shape: shape as PlannedEngine["shape"],
  });
  const life = [{ healthyAtMs: 1000 }];
  await onStage(
    [heavy("a", 1, 0), heavy("b", 2, 1), heavy("c", 3, 2)],
    { a: life, b: life, c: life },
    async (stage) => {
      await stage.supervisor.start(never);
      assert.deepEqual(stage.processes.starts, [["a", 0], ["b", 1000], ["c", 2000]]);
    },
    { freeHostBytes: 100 },
  );
});

test("an engine that crashes is told of at once and started again, later each time", async () => {
  const crash = (atMs: number): FakeLife => ({
    healthyAtMs: 0,
    exit: [atMs, { code: undefined, signal: "SIGKILL" }],
  });
  await onStage(
    [plannedEngine("a", 1000)],
    { a: [crash(5_000), crash(6_000), { healthyAtMs: 0 }] },
    async (stage) => {
      await stage.supervisor.start(never);
      await stage.clock.sleep(60_000);
      const why =
        "a: the engine was killed: if nobody did it on purpose, the host ran out of memory (see dmesg); " +
        "start fewer engines at once, or give the host more memory; it wrote nothing to /logs/a.log";
      assert.deepEqual(stage.news, [
        "250 up a",
        `5000 down a: ${why}`,
        "6250 up a",
        `12000 down a: ${why}`,
        "14250 up a",
      ]);
      assert.equal(stage.supervisor.statuses[0]?.restarts, 2);
    },
  );
});

test("an engine that crashes too often stays down, and the others go on", async () => {
  const crash: FakeLife = {
    healthyAtMs: 0,
    exit: [2_000, { code: 1, signal: undefined }],
    lines: [[1, "Boom"]],
  };
  const engines = [plannedEngine("a", 1), plannedEngine("b", 2)];
  await onStage(engines, { a: [crash], b: [{ healthyAtMs: 0 }] }, async (stage) => {
    await stage.supervisor.start(never);
    await stage.clock.sleep(3600_000);
    const [a, b] = stage.supervisor.statuses;
    assert.equal(stage.processes.starts.filter(([name]) => name === "a").length, 5);
    assert.equal(
      a?.problem,
      "a: crashed 5 times within 10 minutes and stays down; the last time: a: the engine ended with code 1\n" +
        "The end of /logs/a.log:\n  Boom",
    );
    assert.deepEqual([a.phase, b?.phase], ["failed", "ready"]);
  });
});

test("an engine that has served is started again whatever its log says: the disk that was full may not be", async () => {
  const full: FakeLife = {
    healthyAtMs: 0,
    exit: [5_000, { code: 1, signal: undefined }],
    lines: [[4_000, "OSError: [Errno 28] No space left on device"]],
  };
  await onStage([plannedEngine("a", 1)], { a: [full, { healthyAtMs: 0 }] }, async (stage) => {
    await stage.supervisor.start(never);
    await stage.clock.sleep(60_000);
    const [a] = stage.supervisor.statuses;
    assert.deepEqual([a?.phase, a?.restarts], ["ready", 1]);
    assert.match(a?.problem ?? "", /disk|full|space/);
  });
});

test("an engine that fails at its first start fails the launch, with the end of its log", async () => {
  const lines = [[10, "one"], [20, "two"]] as const;
  await onStage([plannedEngine("a", 1), plannedEngine("b", 2)], {
    a: [{ lines, exit: [1_000, { code: 3, signal: undefined }] }],
    b: [{ healthyAtMs: 60_000 }],
  }, async (stage) => {
    assert.equal(
      await failure(stage.supervisor.start(never)),
      "a: the engine ended with code 3 before it was ready\nThe end of /logs/a.log:\n  one\n  two",
    );
    assert.ok(stage.clock.now() < 2_000);
  });
});

test("a program that is not there is named at once", async () => {
  await onStage([plannedEngine("a", 1)], { a: [{ absent: true }] }, async (stage) => {
    assert.equal(
      await failure(stage.supervisor.start(never)),
      "a: There is no program a: install it, or name its command in launch.vllm.command",
    );
  });
});

test("a port that another program has is noticed before the engine starts, and its answers are not taken for the engine's", async () => {
  await onStage([plannedEngine("a", 1000)], { a: [{ healthyAtMs: 0 }] }, async (stage) => {
    assert.equal(
      await failure(stage.supervisor.start(never)),
      "a: port 1000 on 127.0.0.1 is taken: stop what uses it, or choose others with launch.base_port",
    );
    assert.deepEqual(stage.processes.starts, []);
  }, { taken: [1000] });
});

test("a front process that stays when its engine cannot come up is ended: SGLang's does", async () => {
  const lines = [[
    500,
    "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 1000): address already in use",
  ]] as const;
  await onStage(
    [plannedEngine("a", 1000, { family: "sglang" })],
    { a: [{ lines, stubborn: true }] },
    async (stage) => {
      assert.match(await failure(stage.supervisor.start(never)), /^a: port 1000 on 127\.0\.0\.1 is taken/);
      assert.ok(stage.clock.now() < 15_000);
      await stage.supervisor.stop();
      assert.deepEqual(stage.processes.signals.map(([, name]) => name), ["SIGTERM", "SIGKILL"]);
    },
  );
});

test("a download that moves is no lateness, silence is", async () => {
  const lines = Array.from(
    { length: 20 },
    (_, n) => [n * 50_000, "model-00001-of-00002.safetensors:   1%|"] as const,
  );
  await onStage([plannedEngine("a", 1)], { a: [{ lines }] }, async (stage) => {
    assert.match(
      await failure(stage.supervisor.start(never)),
      /^a: not ready after 60 s without progress \(downloading\): allow more with --ready-timeout\nThe end of \/logs\/a\.log:\n/,
    );
    assert.ok(stage.clock.now() > 1_000_000);
  }, { rules: { readyTimeoutMs: 60_000 } });
});

test("an engine that runs and has not answered for minutes is started again", async () => {
  const lives = [{ healthyAtMs: 0, hangs: [60_000, Infinity] }, { healthyAtMs: 0 }] as const;
  await onStage([plannedEngine("a", 1)], { a: lives }, async (stage) => {
    await stage.supervisor.start(never);
    await stage.clock.sleep(20 * 60_000);
    assert.equal(stage.processes.starts.length, 2);
    assert.match(
      stage.news[1] ?? "",
      /down a: a: the engine runs, but has not answered its health check 12 times/,
    );
    assert.equal(stage.supervisor.statuses[0]?.phase, "ready");
  });
});

test("a stop during the start ends what has been started, and kills what does not listen after the grace time", async () => {
  const engines = [plannedEngine("a", 1, { gpus: [0] }), plannedEngine("b", 2, { gpus: [0] })];
  await onStage(engines, { a: [{ stubborn: true }], b: [] }, async (stage) => {
    const stop = new AbortController();
    const start = stage.supervisor.start(stop.signal);
    await stage.clock.sleep(5_000);
    stop.abort(new Error("asked to stop"));
    await assert.rejects(start, /asked to stop/);
    await stage.supervisor.stop();
    assert.deepEqual(stage.processes.signals.map(([name, signal]) => [name, signal]), [
      ["a", "SIGTERM"],
      ["a", "SIGKILL"],
    ]);
    assert.ok(stage.clock.now() >= 12_000 && stage.clock.now() < 13_000);
    assert.deepEqual(stage.supervisor.statuses.map(({ phase }) => phase), ["stopped", "stopped"]);
  }, { rules: { graceMs: 7_000 } });
});

test("halves within one process are all waited for, and go down together", async () => {
  const prefill = plannedEngine("m-prefill", 1, { role: "prefill", family: "sim" });
  const decode = plannedEngine("m-decode", 1, { role: "decode", family: "sim", within: "m-prefill" });
  await onStage([prefill, decode], { "m-prefill": [{ healthyAtMs: 2_000 }] }, async (stage) => {
    await stage.supervisor.start(never);
    stage.processes.kill("m-prefill");
    await stage.clock.sleep(60_000);
    assert.deepEqual(stage.news.map((line) => line.split(" ").slice(1, 3).join(" ")), [
      "up m-prefill",
      "up m-decode",
      "down m-prefill:",
      "down m-decode:",
      "up m-prefill",
      "up m-decode",
    ]);
    assert.equal(stage.supervisor.statuses.length, 1);
  });
});

test("an engine over several hosts is not started from here", () => {
  assert.throws(
    () =>
      new Supervisor({
        plan: planOf(plannedEngine("a", 1, { nodes: 2 })),
        processes: new FakeProcesses(new VirtualClock(), {}),
        clock: new VirtualClock(),
        transport: new FakeProcesses(new VirtualClock(), {}),
        env: {},
        rules: DEFAULT_RULES,
        logFolder: "/logs",
        freeHostBytes: () => 0,
        portProblem: () => Promise.resolve(undefined),
        onChange: () => {},
      }),
    /a spans 2 hosts, which cannot be started from here: use canopy plan --emit kubernetes or slurm/,
  );
});
