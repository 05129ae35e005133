import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import "../../loopback.ts";
import { type Engine, models, whileServing, withServers } from "./routers.ts";

/** A launch line as users have it, with the hosts of its workers replaced: $1 and $2 are servers that run. */
interface LaunchLine {
  readonly from: string;
  readonly line: string;
  /** What the router says of its models; `[]`: it waits for POST /workers. Absent: the line is refused. */
  readonly serves?: readonly string[];
  /** What stands on standard output or standard error. */
  readonly says?: RegExp;
  readonly engine?: Engine["engine"];
}

const SGLANG = "python -m sglang_router.launch_router";
const A = ["org/a"];
const PAIR = /org\/a {2}sglang-pd, 1 prefill and 1 decode server/;

const LINES: readonly LaunchLine[] = [
  {
    from: "SGLang's README of the router",
    line: `${SGLANG} --worker-urls $1 $2`,
    serves: A,
    says: /org\/a {2}sglang, 2 workers/,
  },
  {
    from: "SGLang's page on the router: a policy and its thresholds",
    line:
      `${SGLANG} --worker-urls $1 $2 --policy cache_aware --cache-threshold 0.5 --balance-abs-threshold 32 --balance-rel-threshold 1.0001 --eviction-interval-secs 60 --max-tree-size 16777216`,
    serves: A,
    says: /Option --balance-rel-threshold: no such setting/,
  },
  {
    from: "the same: prefill and decode",
    line:
      `${SGLANG} --pd-disaggregation --prefill $1 9001 --decode $2 --prefill-policy cache_aware --decode-policy power_of_two --host 0.0.0.0`,
    serves: A,
    says: PAIR,
  },
  {
    from: "the same: bootstrap port none",
    line: `${SGLANG} --pd-disaggregation --prefill $1 none --decode $2 --policy cache_aware`,
    serves: A,
    says: PAIR,
  },
  {
    from: "SGLang's LWS manifest",
    line:
      `python3 -m sglang_router.launch_router --pd-disaggregation --prefill $1 --decode $2 --host 0.0.0.0`,
    serves: A,
    says: PAIR,
  },
  {
    from: "SGLang's page on PD disaggregation, the small load balancer",
    line: `${SGLANG} --pd-disaggregation --mini-lb --prefill $1 --decode $2 --host 0.0.0.0`,
    serves: A,
    says: PAIR,
  },
  {
    from: "a compose file: metrics, logs",
    line:
      `sglang-router launch --worker-urls $1 $2 --prometheus-host 127.0.0.1 --log-level info --request-id-headers x-my-id x-id`,
    serves: A,
    says: /Metrics are at http:\/\/127\.0\.0\.1:\d+\/metrics/,
  },
  {
    from: "SGLang's page on the gateway: retries, breaker, queue",
    line:
      `${SGLANG} --worker-urls $1 $2 --retry-max-retries 3 --retry-initial-backoff-ms 100 --retry-max-backoff-ms 10000 --retry-backoff-multiplier 2.0 --retry-jitter-factor 0.1 --cb-failure-threshold 5 --cb-success-threshold 2 --cb-timeout-duration-secs 30 --cb-window-duration-secs 60 --max-concurrent-requests 256 --rate-limit-tokens-per-second 512 --queue-size 128 --queue-timeout-secs 30`,
    serves: A,
    says: /Option --rate-limit-tokens-per-second: there is no limit on the rate/,
  },
  {
    from: "the same: health checks",
    line:
      `${SGLANG} --worker-urls $1 --health-check-endpoint /health --health-check-interval-secs 30 --health-check-timeout-secs 10 --health-failure-threshold 3 --health-success-threshold 2`,
    serves: A,
  },
  {
    from: "the same: Kubernetes",
    line:
      `${SGLANG} --service-discovery --selector app=sglang-worker role=inference --service-discovery-namespace production --service-discovery-port $PORT`,
    serves: A,
    says: /listening/,
  },
  {
    from: "the same: Kubernetes, prefill and decode",
    line:
      `${SGLANG} --pd-disaggregation --service-discovery --prefill-selector app=sglang component=prefill --decode-selector app=sglang component=decode --service-discovery-port $PORT`,
    serves: A,
  },
  {
    from: "the same: several models",
    line: `${SGLANG} --enable-igw --policy cache_aware --max-concurrent-requests 512`,
    serves: [],
    says: /No worker is here yet: POST/,
  },
  {
    from: "slime's trainer, whose engines add themselves",
    line:
      `${SGLANG} --policy cache_aware --balance-abs-threshold 0 --log-level warn --request-timeout-secs 14400 --disable-health-check`,
    serves: [],
    says: /No worker is here yet: POST/,
  },
  {
    from: "slime's trainer with pairs",
    line: `${SGLANG} --pd-disaggregation --policy cache_aware --balance-abs-threshold 0 --log-level warn`,
    serves: [],
  },
  {
    from: "a trainer's rollout servers",
    line:
      `${SGLANG} --worker-urls $1 $2 --balance-abs-threshold 4 --worker-startup-timeout-secs 600 --max-payload-size 1073741824`,
    serves: A,
  },
  {
    from: "another trainer's",
    line: `${SGLANG} --worker-urls $1 $2 --policy round_robin --worker-startup-check-interval 5`,
    serves: A,
    says: /Option --worker-startup-check-interval: workers that are not up yet are asked every second/,
  },
  {
    from: "a compose file: a policy for each half, a port for metrics",
    line:
      `${SGLANG} --pd-disaggregation --prefill $1 --decode $2 --prefill-policy power_of_two --decode-policy round_robin --host 0.0.0.0 --request-timeout-secs 3600`,
    serves: A,
    says: PAIR,
  },
  {
    from: "the first versions' README",
    line: `${SGLANG} --worker-urls $1 $2 --policy random --eviction-interval 120 --max-tree-size 1000000`,
    serves: A,
    says: /Option --eviction-interval-secs: no such setting/,
  },
  {
    from: "a test of SGLang's own",
    line:
      `python3 -m sglang_router.launch_router --pd-disaggregation --mini-lb --prefill $1 --decode $2 --host 127.0.0.1`,
    serves: A,
    says: PAIR,
  },
  {
    from: "a key, and ranks",
    line: `${SGLANG} --worker-urls $1 --api-key secret --dp-aware`,
    serves: [],
  },
  {
    from: "SGLang's page on the gateway: an OpenAI-compatible server",
    line: `${SGLANG} --backend openai --worker-urls $1 --history-backend none`,
    serves: A,
    says: /org\/a {2}openai, 1 worker/,
  },
  {
    from: "the same: gRPC",
    line:
      `${SGLANG} --worker-urls grpc://127.0.0.1:20000 --model-path meta-llama/Llama-3.1-8B-Instruct --reasoning-parser deepseek-r1 --tool-call-parser json`,
    says: /Workers speak HTTP here: start grpc:\/\/127\.0\.0\.1:20000 with its HTTP server/,
  },
  {
    from: "the same: a store of conversations",
    line:
      `${SGLANG} --backend openai --worker-urls $1 --history-backend postgres --postgres-db-url postgres://u:p@db/x`,
    says: /Option --history-backend: conversations are not stored here/,
  },
  {
    from: "the same: an identity provider",
    line:
      `${SGLANG} --worker-urls $1 --jwt-issuer https://login.example.com --jwt-audience gateway --jwt-role-mapping Gateway.Admin=admin Gateway.User=user`,
    says:
      /Option --jwt-issuer: tokens of an identity provider are not checked here: use --control-plane-api-keys/,
  },
  {
    from: "the same: MCP",
    line: `${SGLANG} --worker-urls $1 --mcp-config-path mcp.yaml`,
    says: /Option --mcp-config-path: tools of MCP servers are not called here/,
  },
  {
    from: "smg's README",
    line:
      `smg launch --worker-urls $1 $2 --policy prefix_hash --sticky-sessions --disable-tokenizer-autoload --log-json`,
    serves: A,
    says: /Option --routing-key-override: requests with one x-smg-routing-key go to one worker/,
  },
  {
    from: "smg's page on high availability",
    line:
      `smg launch --worker-urls $1 --enable-mesh --mesh-host 0.0.0.0 --mesh-peer-urls 10.0.0.2:39527 10.0.0.3:39527`,
    says: /Option --enable-mesh: routers do not know of each other here/,
  },
  {
    from: "vLLM's fork of the router",
    line:
      `vllm-router --policy consistent_hashing --vllm-pd-disaggregation --prefill $1 --decode $2 --intra-node-data-parallel-size 1`,
    says: /Unknown option --intra-node-data-parallel-size/,
  },
  {
    from: "the same, with what both have",
    line: `vllm-router --policy consistent_hashing --vllm-pd-disaggregation --prefill $1 --decode $2`,
    engine: "vllm",
    serves: A,
    says: /org\/a {2}vllm-pd, 1 prefill and 1 decode server/,
  },
  {
    from: "a typing error",
    line: `${SGLANG} --worker-urls $1 --max-concurent-requests 4`,
    says: /Unknown option --max-concurent-requests: did you mean --max-concurrent-requests\?/,
  },
];

/** A Kubernetes API in which any label selects one ready pod; a decode pod has another name of the same address. */
async function withPods(use: (url: string) => Promise<void>): Promise<void> {
  const api = createServer(({ url = "" }, response) => {
    const { searchParams } = new URL(url, "http://api");
    if (searchParams.get("watch") === "1") return void response.write("\n");
    const decode = searchParams.get("labelSelector")?.includes("component=decode") === true;
    const pod = {
      metadata: { name: "a-0", namespace: "default", resourceVersion: "1" },
      spec: {},
      status: {
        phase: "Running",
        podIP: decode ? "localhost" : "127.0.0.1",
        conditions: [{ type: "Ready", status: "True" }],
      },
    };
    response.end(JSON.stringify({ kind: "PodList", metadata: { resourceVersion: "1" }, items: [pod] }));
  });
  await new Promise<void>((resolve) => api.listen(0, "127.0.0.1", () => resolve()));
  const address = api.address();
  try {
    await use(`http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`);
  } finally {
    api.closeAllConnections();
    api.close();
  }
}

/** The arguments of a launch line behind its command; the tests choose the ports. */
function argsOf(line: string, [one = "", two = ""]: readonly string[], api: string): string[] {
  const words = line.replace(/^(?:python3? -m \S+|\S+ launch|\S+) /, "").split(" ");
  const args = words.map((word) =>
    word.replace("$1", one).replace("$2", two).replace("$PORT", new URL(one).port)
  );
  return args.includes("--service-discovery") ? [...args, "--kubernetes-api", api] : args;
}

for (const { from, line, serves, says, engine } of LINES) {
  test(`launch line, ${from}: ${serves === undefined ? "refused in one sentence" : "starts as meant"}`, async () => {
    const servers = engine === undefined ? [{}, {}] : [{ engine }, { engine }];
    await withServers(servers, (urls) =>
      withPods(async (api) => {
        let served = false;
        const { code, out, err } = await whileServing(argsOf(line, urls, api), async (url, io) => {
          served = true;
          const listed = async () => line.includes("--api-key") ? [] : await models(url);
          while ((await listed()).length < (serves?.length ?? 0)) await io.clock.sleep(10);
          assert.deepEqual(await listed(), serves);
        });
        assert.equal(code, serves === undefined ? 2 : 0, err);
        assert.equal(served, serves !== undefined);
        if (says !== undefined) assert.match(out + err, says);
        if (serves === undefined) assert.equal(err.trim().split("\n").length, 1, err);
      }));
  });
}
