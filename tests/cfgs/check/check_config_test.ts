import assert from "node:assert/strict";
import { test } from "node:test";
import { complaints, configText } from "../helpers.ts";

const agent = { model: "4b" };

test("A tree that makes sense raises nothing", () => {
  const layers = [{ clusters: 2, agents: [agent, { model: "8b" }] }, { agents: [agent, agent] }, {
    agents: [agent],
  }];
  assert.deepEqual(complaints(configText({ graphs: { moa: { layers } } })), []);
});

test("Unknown models and prompts are named, with line and the nearest known name", () => {
  const text = `{
  "models": { "4b": { "model": "x", "engine": "vllm", "workers": ["http://h:1"] } },
  "prompts": { "mine": "[input_prompts]" },
  "graphs": {
    "moa": {
      "layers": [
        { "clusters": 2, "agents": [{ "model": "4bb", "prompt": "min" }, { "model": "4b" }], "prompt": "proposal" },
        { "agents": [{ "model": "gpt" }], "prompt": "sythesize" }
      ]
    }
  }
}`;
  assert.deepEqual(complaints(text), [
    'canopy.jsonc:7:48: graphs.moa.layers[0].agents[0].model is "4bb": expected one of "4b"; did you mean "4b"?',
    'canopy.jsonc:7:65: graphs.moa.layers[0].agents[0].prompt is "min": expected one of "mine", "propose", ' +
    '"aggregate", "synthesize", "rewrite"; did you mean "mine"?',
    'canopy.jsonc:7:104: graphs.moa.layers[0].prompt is "proposal": expected one of "mine", "propose", ' +
    '"aggregate", "synthesize", "rewrite"; did you mean "propose"?',
    'canopy.jsonc:8:33: graphs.moa.layers[1].agents[0].model is "gpt": expected one of "4b"',
    'canopy.jsonc:8:53: graphs.moa.layers[1].prompt is "sythesize": expected one of "mine", "propose", ' +
    '"aggregate", "synthesize", "rewrite"; did you mean "synthesize"?',
  ]);
});

test("A graph that calls itself, or another graph, is refused; so is one with a model's name", () => {
  const graph = (model: string) => ({ layers: [{ agents: [{ model }] }] });
  const graphs = { moa: graph("moa"), other: graph("moa"), "8b": graph("4b") };
  assert.deepEqual(complaints(configText({ graphs })).map((line) => line.replace(/^.*?: /, "")), [
    'graphs.moa.layers[0].agents[0].model is "moa", the graph itself: a graph cannot call itself',
    'graphs.other.layers[0].agents[0].model is "moa", a graph: an agent calls a model, one of "4b", "8b"',
    "graphs.8b has the name of a model: clients could not tell them apart",
  ]);
});

test("Graphs without a root, with several, and with a cycle are refused", () => {
  const dag = (agents: Record<string, string[]>) => ({
    agents: Object.fromEntries(Object.entries(agents).map(([name, reads]) => [name, { model: "4b", reads }])),
  });
  const graphs = {
    cycle: dag({ a: ["b"], b: ["a"] }),
    roots: dag({ a: [], b: [], c: ["a"] }),
    nobody: dag({}),
    ghost: dag({ a: [], b: ["a", "d"] }),
    wide: { layers: [{ agents: [agent, agent] }] },
  };
  const said = complaints(configText({ graphs })).map((line) => line.replace(/^.*?: /, ""));
  assert.equal(said.length, 5);
  assert.match(said[0]!, /^graphs\.cycle\.agents .*cycle.*"a", "b"/);
  assert.match(said[1]!, /^graphs\.roots\.agents .*2 roots.*"b", "c"/);
  assert.match(said[2]!, /^graphs\.nobody\.agents has no agents/);
  assert.match(said[3]!, /^graphs\.ghost\.agents\.b\.reads\[1\] .*"d"/);
  assert.match(said[4]!, /^graphs\.wide\.layers\[0\] .*2 agents.*one/);
});

test("Layers whose numbers do not fit are refused, both numbers named", () => {
  const layers = [{ clusters: 3, agents: [agent] }, { agents: [agent, agent] }, { agents: [agent] }];
  const [said, ...rest] = complaints(configText({ graphs: { moa: { layers } } }));
  assert.deepEqual(rest, []);
  assert.match(said!, /graphs\.moa\.layers\[1\] has 2 agents but layer 1 has 3 clusters/);
});

test("A cluster that needs more answers than it has agents is refused", () => {
  const layers = [{ agents: [agent, agent], min_responses: 3 }, { agents: [agent] }];
  const said = complaints(configText({ graphs: { moa: { layers } } }));
  assert.match(said.join(), /graphs\.moa\.layers\[0\]\.min_responses is 3 but the cluster has only 2 agents/);
});

test("Slots that nobody fills, and responses in a leaf, are refused", () => {
  const prompts = {
    slot: { system: "A: <|answer:l1.c1.a1|> B: <|answer:l1.c1.a3|>" },
    leaf: "Answer [input_prompts] with [responses]",
  };
  const layers = [{ agents: [agent, agent], prompt: "leaf" }, { agents: [agent], prompt: "slot" }];
  assert.deepEqual(
    complaints(configText({ prompts, graphs: { moa: { layers } } })).map((line) =>
      line.replace(/^.*?: /, "")
    ),
    [
      'graphs.moa.layers[0].agents[0] has the prompt "leaf", which has [responses], but agent l1.c1.a1 reads nobody',
      'graphs.moa.layers[0].agents[1] has the prompt "leaf", which has [responses], but agent l1.c1.a2 reads nobody',
      'graphs.moa.layers[1].agents[0] has the prompt "slot", whose slot <|answer:l1.c1.a3|> nobody fills for agent ' +
      'l2.c1.a1: it reads "l1.c1.a1", "l1.c1.a2"; did you mean "l1.c1.a1"?',
    ],
  );
});

test("Prompts that lose the question or the answers raise warnings", () => {
  const prompts = { fixed: "Tell me a joke.", raw: { text: "Q: [input_prompts] A:" } };
  const layers = [{ agents: [agent], prompt: "fixed" }, { agents: [agent], prompt: "raw" }];
  assert.deepEqual(complaints(configText({ prompts, graphs: { moa: { layers } } })), [
    'warning: graphs.moa.layers[0].agents[0] has the prompt "fixed", which has no [input_prompts]: agent l1.c1.a1 ' +
    "will not see the question",
    'warning: graphs.moa.layers[1].agents[0] has the prompt "raw", which has neither [responses] nor a slot: agent ' +
    "l2.c1.a1 will not see what it reads",
  ]);
});

test("max_tokens that do not fit together in a reader's context are one warning, with what happens then and what to do", () => {
  const model = { model: "x", engine: "vllm", workers: ["http://h:1"] };
  const models = { "4b": model, "8b": { ...model, context_tokens: 4000, sampling: { max_tokens: 1000 } } };
  const layers = (max_tokens: number) => [
    { agents: [agent, agent, agent], sampling: { max_tokens } },
    { agents: [{ model: "8b" }] },
  ];
  assert.deepEqual(complaints(configText({ models, graphs: { moa: { layers: layers(1000) } } })), []);
  const said = complaints(configText({ models, graphs: { moa: { layers: layers(1001) } } }));
  assert.deepEqual(said.map((line) => line.replace(/^.*?: /, "")), [
    "graphs.moa has max_tokens that do not fit together: agent l2.c1.a1 may read 3003 tokens and write 1000 in the 4000 " +
    'of "8b"; its max_tokens are lowered to what is left, and answers that are too long for their reader are cut from ' +
    "their middle (on_overflow); with max_tokens below 1000 that cannot happen",
  ]);
});

test("Pairs and single servers are not mixed up", () => {
  const pair = { prefill: "http://p:1", bootstrap_port: 8998, decode: "http://d:1" };
  const models = {
    a: { model: "x", engine: "sglang-pd", workers: [pair, "http://h:1"] },
    b: { model: "x", engine: "sglang", workers: [{ url: "http://h:1" }, pair] },
  };
  assert.deepEqual(complaints(configText({ models })).map((line) => line.replace(/^.*?: /, "")), [
    'models.a.workers[1] is one server, but the engine "sglang-pd" needs pairs: give { "prefill": URL, "decode": URL }',
    'models.b.workers[1] is a pair, but the engine "sglang" needs single servers: give a URL, or use "sglang-pd"',
  ]);
});

test("A pair whose two halves are one server is refused", () => {
  const models = {
    a: {
      model: "x",
      engine: "vllm-pd",
      workers: [
        { prefill: "http://h:1", decode: "http://H:1/" },
        { prefill: "http://h:1", decode: "http://h:2" },
      ],
    },
  };
  assert.deepEqual(complaints(configText({ models })).map((line) => line.replace(/^.*?: /, "")), [
    "models.a.workers[0].decode is the pair's prefill server, too: name the server that writes answers",
  ]);
});

test("Models without workers, with one twice, or without any use raise warnings", () => {
  const model = { model: "x", engine: "vllm", workers: ["http://h:1"] };
  const models = {
    idle: { ...model, served: false },
    none: { ...model, workers: [] },
    twice: { ...model, workers: ["http://h:1", "http://h:1"] },
  };
  assert.deepEqual(complaints(configText({ models })), [
    "warning: models.none.workers is empty: only `canopy launch`, which starts the engines itself, can use this model",
    "warning: models.twice.workers[1] is the same as workers[0]: it would count twice",
    "warning: models.idle is used by no graph, and not served by itself",
  ]);
  assert.match(complaints(configText({ models: {} })).join(), /models is empty: give at least one model/);
});

test("MoA-vllm's behaviour needs raw prompts", () => {
  const layers = [{ agents: [agent], prompt: "propose" }];
  const said = complaints(configText({ graphs: { moa: { layers, compat: "moa-vllm" } } }));
  assert.deepEqual(said.map((line) => line.replace(/^.*?: /, "")), [
    'graphs.moa.layers[0].prompt is "propose", which is not a raw prompt: compat "moa-vllm" needs { "text": … }',
  ]);
});

test("What a flag has broken is blamed on the flag", () => {
  const graphs = { moa: { layers: [{ agents: [agent] }] } };
  const overrides = [{ path: "graphs.moa.layers[0].agents[0].model", value: "4", origin: "--set model" }];
  assert.deepEqual(complaints(configText({ graphs }), { overrides }), [
    '--set model: graphs.moa.layers[0].agents[0].model is "4": expected one of "4b", "8b"; did you mean "4b"?',
  ]);
});

test("Settings of early exit that nothing looks at raise a warning", () => {
  const layers = [{ agents: [agent, { model: "8b" }] }, { agents: [agent] }];
  const idle = (settings: object) =>
    complaints(configText({ graphs: { moa: { layers, early_exit: settings } } }))
      .map((complaint) => complaint.replace(/^.*warning: graphs\.moa\.early_exit\./, ""));
  assert.deepEqual(idle({ tau: 0.9, min_agents: 2, verdict: { model: "8b" } }), [
    'min_agents has no effect with metric "none"',
    'tau has no effect with metric "none"',
    'verdict has no effect with metric "none"',
  ]);
  assert.deepEqual(idle({ metric: "answer", threshold: 0.9, keep: "all" }), [
    'threshold has no effect with metric "answer"',
  ]);
  assert.deepEqual(idle({ metric: "q", tau: 0.9, threshold: 0.9 }), [
    'threshold has no effect without decide "threshold"',
  ]);
  assert.deepEqual(idle({ metric: "q", decide: "threshold", threshold: 0.9, similarity: "cosine" }), []);
  assert.deepEqual(idle({ metric: "answer", answer: { level: 0.9, window: 3 } }), [
    'answer.level has no effect without stop "posterior"',
    'answer.window has no effect without stop "window"',
  ]);
  assert.deepEqual(idle({ metric: "agreement", min_agents: 3, veto_below: 0.2 }), [
    "min_agents is never reached: the largest cluster to which this applies has 2",
  ]);
  assert.deepEqual(idle({ scope: "run", consensus: { agree: 2 }, never_skip: ["8b"], deadline_ms: 100 }), [
    'deadline_ms has no effect with scope "run"',
  ]);
  // A run with little effort reads final answers by the rules of its graph.
  assert.deepEqual(idle({ answer: { extract: ["boxed"] }, never_skip: ["8b"] }), []);
});

test("Early exit that names nobody is refused, and a skip_root without effect is doubted", () => {
  const layers = [{ agents: [agent, { model: "8b" }] }, { agents: [agent] }];
  const exit = (settings: object) =>
    complaints(configText({ graphs: { moa: { layers, early_exit: { metric: "agreement", ...settings } } } }))
      .map((complaint) => complaint.replace(/^[^ ]+ /, ""));
  assert.deepEqual(exit({ never_skip: ["4b", "l1.c1.a2"], verdict: { model: "8b" }, skip_root: 0.6 }), []);
  assert.match(
    exit({ never_skip: ["4b", "l1.c1.a3"] })[0] ?? "",
    /early_exit\.never_skip\[1\] is "l1\.c1\.a3"/,
  );
  assert.match(
    exit({ verdict: { model: "9b" } })[0] ?? "",
    /early_exit\.verdict\.model is "9b": expected one of/,
  );
  assert.match(
    exit({ metric: "none", skip_root: 0.5 })[0] ?? "",
    /skip_root has no effect with metric "none"/,
  );
  const alone = {
    layers: [{ agents: [agent] }, { agents: [agent] }],
    early_exit: { metric: "answer", skip_root: 1 },
  };
  assert.match(
    complaints(configText({ graphs: { moa: alone } }))[0] ?? "",
    /skip_root has no effect: the root/,
  );
  const inner = { layers: [{ ...layers[0], early_exit: { never_skip: ["9b"] } }, layers[1]] };
  assert.match(
    complaints(configText({ graphs: { moa: inner } }))[0] ?? "",
    /moa\.layers\[0\]\.early_exit\.never_skip\[0\] is "9b"/,
  );
});

test("A run's consensus is a graph's own, counts final answers, and says where it has no effect", () => {
  const layers = [{ agents: [agent, agent, { model: "8b" }] }, { agents: [agent] }];
  const told = (graph: object) =>
    complaints(configText({ graphs: { moa: graph } })).map((complaint) => complaint.replace(/^[^ ]+ /, ""));
  const run = (settings: object, more: object = {}) =>
    told({ layers, early_exit: { scope: "run", ...settings }, ...more });
  assert.deepEqual(run({}), []);
  assert.deepEqual(run({ metric: "answer", consensus: { posterior: 0.9, skills: { "8b": 0.7 } } }), []);
  assert.match(run({ metric: "q" })[0] ?? "", /early_exit\.metric is "q", but with scope "run"/);
  assert.match(
    run({ consensus: { agree: 4 } })[0] ?? "",
    /agree is never reached: 3 agents write before the root/,
  );
  assert.match(
    run({ consensus: { posterior: 0.9, skills: { "9b": 0.7 } } })[0] ?? "",
    /skills\["?9b"?\]|skills\.9b/,
  );
  assert.match(run({ consensus: { agree: 2, share: 0.5 } })[0] ?? "", /one of agree, share and posterior/);
  assert.match(
    told({ layers, early_exit: { consensus: { agree: 3 } } })[0] ?? "",
    /no effect without scope "run"/,
  );
  const kind = (skills: object) => ({ share: 1, skills, coincidence: 0.2 });
  assert.deepEqual(run({ consensus: { posterior: 0.9, difficulties: [kind({ "8b": 0.7 })] } }), []);
  const unknown = run({ consensus: { posterior: 0.9, difficulties: [kind({ "9b": 0.7 })] } });
  assert.match(unknown[0] ?? "", /difficulties\[0\]\.skills.*9b/);
  const idle = run({
    consensus: {
      agree: 2,
      difficulties: [kind({})],
      most_wrong: 0.1,
      usual_votes: { never: 3 },
      stage_ms: 5,
    },
  });
  assert.deepEqual(idle.map((one) => /(\w+) has no effect without .*$/.exec(one)?.[0]), [
    "difficulties has no effect without posterior",
    "most_wrong has no effect without audit",
    "usual_votes has no effect without audit",
    'stage_ms has no effect without start "staged"',
  ]);
  const needless = run({ consensus: { posterior: 0.9, cut: "decided" } });
  assert.match(
    needless[0] ?? "",
    /cut has no effect without agree or share: any vote may change a posterior/,
  );
  assert.deepEqual(run({ consensus: { share: 0.5, cut: "decided" } }), []);
  const [overruled] = run({ consensus: { agree: 4, cut: "decided", undecided: "leader" } });
  assert.match(overruled ?? "", /cut has no effect without undecided "root": any vote may change who leads/);
  const levelled = { undecided: "leader", undecided_level: 0.8 };
  const [unlevelled] = run({ consensus: { agree: 4, ...levelled } });
  assert.match(unlevelled ?? "", /undecided_level has no effect without posterior and undecided "leader"/);
  assert.deepEqual(run({ consensus: { posterior: 0.9, ...levelled } }), []);
  const written = (rewrite: object, finish = "rewrite") => run({ consensus: { agree: 2, finish, rewrite } });
  assert.deepEqual(written({ model: "8b", deadline_ms: 500 }), []);
  assert.match(written({ model: "9b" })[0] ?? "", /consensus\.rewrite\.model is "9b"/);
  assert.match(written({ prompt: "rewritten" })[0] ?? "", /consensus\.rewrite\.prompt is "rewritten"/);
  assert.match(
    written({ prompt: "propose" })[0] ?? "",
    /no slot for the texts that agree: put \[responses\]/,
  );
  assert.match(written({ model: "8b" }, "text")[0] ?? "", /rewrite has no effect without finish "rewrite"/);
  const leveled = (effort: unknown) => told({ layers, effort });
  assert.deepEqual(leveled({ low: { early_exit: { scope: "run", consensus: { agree: 2 } } } }), []);
  assert.match(
    leveled({ high: { graph: "mao" } })[0] ?? "",
    /effort\.high\.graph is "mao".*did you mean "moa"/,
  );
  assert.match(
    leveled({ low: { graph: "moa", early_exit: {} } })[0] ?? "",
    /give one of them|low, medium and high/,
  );
  const inner = [{ ...layers[0], early_exit: { scope: "run" } }, layers[1]];
  assert.match(
    told({ layers: inner })[0] ?? "",
    /layers\[0\]\.early_exit\.scope is "run": only the early_exit of/,
  );
});

test("An embedded model has no workers, and needs none; its settings are for no other engine", () => {
  const text = configText({
    models: {
      fine: { model: "acme/small", engine: "onnx", onnx: { threads: 2, cache_bytes: 1_000_000 } },
      served: { model: "acme/small", engine: "onnx", workers: ["http://h:1"] },
      other: { model: "acme/small", engine: "vllm", workers: ["http://h:1"], onnx: {} },
    },
  });
  assert.deepEqual(complaints(text).map((line) => line.replace(/^\S+ /, "")), [
    'models.served.workers is not empty, but the engine "onnx" runs in this process: leave the workers out',
    'models.other.onnx is for the engine "onnx", but the engine is "vllm": leave it out',
  ]);
});

test("clients' keys without an operator's say what is refused to everybody", () => {
  const models = { "4b": { model: "Q/4B", engine: "vllm", workers: ["http://h:1"] } };
  const check = (server: object) => complaints(configText({ models, server }));
  const [warning = ""] = check({ api_keys: ["k"] });
  assert.match(warning, /server\.api_keys is set without server\.admin_key: .*\/flush_cache.* are refused/);
  assert.deepEqual(check({ api_keys: ["k"], admin_key: "boss" }), []);
  assert.deepEqual(check({ api_keys: ["k"], admin_keys: ["boss"] }), []);
});

test("Settings of the scorer that its embedder does not look at raise a warning, and one without its endpoint is refused", () => {
  const models = { "4b": { model: "Q/4B", engine: "vllm", workers: ["http://h:1"] } };
  const check = (scorer: object) =>
    complaints(configText({ models, scorer })).map((complaint) =>
      complaint.replace(/^.*?(?=scorer\.|models\.)/, "")
    );
  assert.deepEqual(check({ url: "http://h:2", model: "Q/E" }), [
    'scorer.url has no effect with embedder "auto": set embedder to "http"',
  ]);
  assert.deepEqual(check({ embedder: "http", url: "http://h:2", model: "Q/E", threads: 2 }), [
    'scorer.threads has no effect with embedder "http"',
  ]);
  assert.deepEqual(check({ embedder: "lexical", max_tokens: 100, whitening: "w" }), [
    'scorer.whitening has no effect with embedder "lexical"',
  ]);
  assert.deepEqual(check({ embedder: "onnx", model: "Q/E", threads: 2, span: "tail" }), []);
  assert.deepEqual(check({ embedder: "http" }), [
    'scorer.url is missing: embedder "http" needs the address of an endpoint',
  ]);
});

test("Settings of models that their engine does not look at raise a warning", () => {
  const models = {
    whole: { model: "Q/4B", engine: "vllm", workers: ["http://h:1"], pair_window: 8 },
    here: { model: "Q/E", engine: "onnx", launch: {} },
  };
  assert.deepEqual(
    complaints(configText({ models })).map((complaint) => complaint.replace(/^.*?(?=scorer\.|models\.)/, "")),
    [
      'models.whole.pair_window is not in effect: the engine "vllm" has whole servers; use max_in_flight',
      'models.here.launch is not in effect: the engine "onnx" runs in this process, and nothing is started for it',
    ],
  );
});

test("a port for metrics is another one than the server's", () => {
  const models = { "4b": { model: "Q/4B", engine: "vllm", workers: ["http://h:1"] } };
  const check = (metrics: object) => complaints(configText({ models, server: { port: 9000, metrics } }));
  assert.deepEqual(check({ port: 9000 }), [
    "canopy.jsonc:1:116: server.metrics.port is 9000, as server.port, which has GET /metrics, too: choose another one, or leave it out",
  ]);
  assert.deepEqual(check({ port: 9001 }), []);
  assert.deepEqual(check({ port: 9000, required: false }), []);
  assert.deepEqual(check({ port: 9000, host: "127.0.0.2" }), []);
});

test("Settings of records that are not in effect raise a warning: without a file, or where nothing is kept", () => {
  const models = { "4b": { model: "Q/4B", engine: "vllm", workers: ["http://h:1"] } };
  const check = (records: object) =>
    complaints(configText({ models, server: { records } })).map((line) =>
      line.replace(/^.*?(?=warning: )/, "")
    );
  for (
    const records of [{}, { keep: false }, { file: "r", texts: true, max_age_days: 1 }, { max_age_days: 30 }]
  ) {
    assert.deepEqual(check(records), [], JSON.stringify(records));
  }
  const without = (name: string) =>
    `warning: server.records.${name} is not in effect without server.records.file: name one, or leave ${name} out`;
  assert.deepEqual(check({ texts: true, max_age_days: 1, max_bytes: 2 ** 24 }), [
    without("texts"),
    without("max_age_days"),
    without("max_bytes"),
  ]);
  assert.deepEqual(check({ keep: false, file: "r", texts: true }), [
    "warning: server.records.file is not in effect while server.records.keep is false: leave one of them out",
  ]);
});

test("Hosts for workers that nobody may add, as there are keys and none is an admin's, raise a warning", () => {
  const models = { "4b": { model: "Q/4B", engine: "vllm", workers: ["http://h:1"] } };
  const server = { worker_hosts: ["gpu7"] };
  assert.deepEqual(complaints(configText({ models, server: { ...server, admin_key: "boss" } })), []);
  assert.deepEqual(complaints(configText({ models, server })), [], "without any key they are in effect");
  const [, warning = ""] = complaints(configText({ models, server: { ...server, api_keys: ["k"] } }));
  assert.match(
    warning,
    /server\.worker_hosts is not in effect with server\.api_keys alone: set server\.admin_key/,
  );
});

test("Policies: an unknown one is named with the list, one for a half that is not there is a warning", () => {
  const model = { model: "x", engine: "vllm", workers: ["http://h:1"] };
  const models = {
    wrong: { ...model, policy: "cache_awre" },
  };
  const [unknown] = complaints(configText({ models }));
  assert.match(
    unknown ?? "",
    /models\.wrong\.policy is "cache_awre": expected one of "cache_aware", "prefix_hash", "consistent_hashing", "manual", "least_load", "power_of_two", "round_robin", "random", "bucket"; did you mean "cache_aware"\?$/,
  );
  const [without] = complaints(configText({ models: { whole: { ...model, decode_policy: "random" } } }));
  assert.match(
    without ?? "",
    /^warning: models\.whole\.decode_policy is not in effect: the engine "vllm" has whole servers; use policy$/,
  );
});

test("Hedges: where a model has no other worker a warning says so; a percentile is one", () => {
  const model = { model: "x", engine: "vllm", workers: ["http://h:1", "http://h:2"], hedge: {} };
  assert.deepEqual(complaints(configText({ models: { two: model } })), []);
  const [alone] = complaints(configText({ models: { one: { ...model, workers: ["http://h:1"] } } }));
  assert.match(
    alone ?? "",
    /^warning: models\.one\.hedge is not in effect while the model has one worker: a second attempt needs another one$/,
  );
  const [own] = complaints(configText({ models: { own: { model: "x", engine: "onnx", hedge: {} } } }));
  assert.match(own ?? "", /^warning: models\.own\.hedge is not in effect: the model runs in this process/);
  const [wrong] = complaints(configText({ models: { two: { ...model, hedge: { after: "p96" } } } }));
  assert.match(wrong ?? "", /models\.two\.hedge\.after is "p96": expected one of "p50", .*, "p99"/);
  const [much] = complaints(configText({ models: { two: { ...model, hedge: { max_share: 2 } } } }));
  assert.match(much ?? "", /models\.two\.hedge\.max_share/);
});

test("a key with limits has one name and one secret, and is no admin's", () => {
  const check = (keys: object, server: object = { admin_key: "boss" }) =>
    complaints(configText({ server: { ...server, limits: { keys } } }));
  assert.deepEqual(check({ alice: { api_key: "a", requests_per_minute: 1 }, bob: { api_key: "b" } }), []);
  const refused = (keys: object) => check(keys).map((line) => line.replace(/^\S+ /, ""));
  assert.deepEqual(refused({ alice: {} }), [
    "server.limits.keys.alice has no key: give api_key, or api_key_env",
  ]);
  assert.deepEqual(refused({ alice: { api_key: "a" }, bob: { api_key: "a" } }), [
    "server.limits.keys.bob has the same key as alice: a key has one name",
  ]);
  assert.deepEqual(refused({ alice: { api_key: "boss" } }), [
    "server.limits.keys.alice is an admin key, and those have no limits: leave it out, or use another key",
  ]);
  assert.match(
    refused({ alice: { api_key: "a", tokens_per_minute: 0 } })[0] ?? "",
    /^server\.limits\.keys\.alice\.tokens_per_minute is 0: /,
  );
  assert.match(
    check({ alice: { api_key: "a" } }, {})[0] ?? "",
    /server\.limits is set without server\.admin_key/,
  );
});

test("a model falls back on models that are there, and in no circle", () => {
  const check = (fallbacks: Record<string, readonly string[]>, graphs = {}) => {
    const models = Object.fromEntries(
      Object.entries(fallbacks).map(([name, fallback]) =>
        [name, { model: name, engine: "vllm", workers: ["http://h:1"], fallback }] as const
      ),
    );
    return complaints(configText({ models, graphs })).map((line) => line.replace(/^(?:\S+:|warning:) /, ""));
  };
  const graphs = { tree: { layers: [{ agents: [{ model: "small" }] }] } };
  assert.deepEqual(check({ small: ["big"], big: ["huge"], huge: [] }), []);
  assert.deepEqual(check({ small: ["bigg"], big: [] }), [
    'models.small.fallback[0] is "bigg": expected one of "big"; did you mean "big"?',
  ]);
  assert.deepEqual(check({ small: ["tree"], big: [] }, graphs), [
    'models.small.fallback[0] is "tree", a graph: only a model can answer in a model\'s place',
  ]);
  assert.deepEqual(check({ small: ["small"] }), [
    'models.small.fallback[0] is "small", the model itself: name other models',
  ]);
  assert.deepEqual(check({ small: ["big"], big: ["huge"], huge: ["small"] }).slice(0, 1), [
    'models.small.fallback[0] is "big", which itself falls back on "small": leave one of the two out, so that it ends somewhere',
  ]);
  const steps = {
    tree: { layers: [{ agents: [{ model: "big" }] }, { agents: [{ model: "small" }] }], root: "staircase" },
  };
  assert.match(
    check({ small: ["big"], big: [] }, steps)[0] ?? "",
    /^models\.small\.fallback is not in effect for the root of tree, which answers in steps/,
  );
});
