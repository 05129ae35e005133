import assert from "node:assert/strict";
import { test } from "node:test";
import { routerOverrides, splitRouterArgs } from "../../../../cli/kit/router_flags/launch_flags.ts";

test("canopy launch takes the flags of launch_server's router: what is given goes over the configuration, no default does", () => {
  const line =
    "canopy.jsonc --router-policy round_robin --detach --router-max-concurrent-requests=64 --router-disable-retries " +
    "--router-request-id-headers x-a x-b --port 9000 --router-cache-threshold 0.5";
  const { router, rest } = splitRouterArgs(line.split(" "));
  assert.deepEqual(rest, ["canopy.jsonc", "--detach", "--port", "9000"]);
  const { overrides, notes } = routerOverrides(router, ["a", "org/b"]);
  assert.deepEqual(overrides.map(({ path, value }) => [path, value]), [
    ["server.request_id_headers", ["x-a", "x-b"]],
    ["server.max_running", 64],
    ["models.a.retries", 0],
    ["models.org/b.retries", 0],
    ["models.a.policy", "round_robin"],
    ["models.org/b.policy", "round_robin"],
  ]);
  assert.equal(notes.length, 1);
  assert.match(notes[0]!, /^Option --router-cache-threshold: no such setting/);
});

test("a router's flags that name workers, and unknown ones, are refused", () => {
  assert.throws(
    () => routerOverrides(["--router-worker-urls", "http://a:1"], ["a"]),
    /--router-worker-urls: the servers are those that are started here/,
  );
  assert.throws(
    () => routerOverrides(["--router-polcy", "random"], ["a"]),
    /Unknown option --router-polcy: did you mean --router-policy\?/,
  );
  assert.throws(
    () => routerOverrides(["--router-jwt-issuer", "x"], ["a"]),
    /Option --router-jwt-issuer: tokens/,
  );
});

test("a router's flags that can have no effect on servers that are started here are told", () => {
  const line = "--router-worker-startup-timeout-secs 5 --router-backend vllm --router-mini-lb " +
    "--router-service-discovery-port 81 --router-kubernetes-api http://127.0.0.1:8001";
  const { overrides, notes } = routerOverrides(line.split(" "), ["a"]);
  assert.deepEqual(overrides, []);
  assert.deepEqual(
    notes.map((note) => note.split(":")[0]),
    [
      "Option --router-worker-startup-timeout-secs",
      "Option --router-backend",
      "Option --router-mini-lb",
      "Option --router-service-discovery-port",
      "Option --router-kubernetes-api",
    ],
  );
});
