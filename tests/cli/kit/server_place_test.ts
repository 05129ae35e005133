import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { JsonObject } from "../../../base/json.ts";
import { serverOf } from "../../../cli/kit/server_place.ts";
import { fakeIo } from "../fake_io.ts";

function placeOf(server: JsonObject, env: Readonly<Record<string, string>> = {}) {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-place-"));
  try {
    writeFileSync(join(cwd, "canopy.json"), JSON.stringify({ server }));
    return serverOf(undefined, fakeIo({ cwd, env }));
  } finally {
    rmSync(cwd, { recursive: true });
  }
}

test("the server of a folder is where its configuration says, over TLS if it says so", () => {
  assert.deepEqual(placeOf({}), { url: "http://127.0.0.1:8000", apiKey: undefined });
  assert.equal(placeOf({ host: "0.0.0.0", port: 9000 }).url, "http://127.0.0.1:9000");
  const tls = { cert: "a.crt", key: "a.key" };
  assert.equal(placeOf({ host: "::", port: 8443, tls }).url, "https://[::1]:8443");
});

test("its key is CANOPY_API_KEY's, else the one of the configuration that may do the most", () => {
  const server = { api_keys: ["a"], admin_key: "b" };
  assert.equal(placeOf(server).apiKey, "b");
  assert.equal(placeOf({ api_keys: ["a"] }).apiKey, "a");
  assert.equal(placeOf(server, { CANOPY_API_KEY: "c" }).apiKey, "c");
});
