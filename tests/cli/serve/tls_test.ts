import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { TLSSocket } from "node:tls";
import { VirtualClock } from "../../../base/clock.ts";
import { serveTls } from "../../../router/http/server/serve_tls.ts";
import { healthCommand } from "../../../cli/health/health.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import "../../loopback.ts";
import { fakeIo } from "../fake_io.ts";
import { withFakeWorkers } from "./fake_worker.ts";
import { chat, models, whileServing } from "./routers.ts";

const FIXTURES = new URL("../../fixtures/tls/", import.meta.url);
const crt = readFileSync(new URL("localhost.crt", FIXTURES), "utf8");
const key = readFileSync(new URL("localhost.key", FIXTURES), "utf8");
const other = {
  cert: readFileSync(new URL("other.crt", FIXTURES), "utf8"),
  key: readFileSync(new URL("other.key", FIXTURES), "utf8"),
};

async function withFolder(
  use: (file: (name: string, text: string) => string) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "canopy-tls-"));
  try {
    await use((name, text) => {
      writeFileSync(join(folder, name), text);
      return join(folder, name);
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A GET over TLS without looking at who answers; gives the name in the certificate, too. */
function get(url: string): Promise<{ status: number; body: string; name: string }> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { rejectUnauthorized: false, agent: false }, (response) => {
      const { socket } = response;
      const name = socket instanceof TLSSocket ? String(socket.getPeerCertificate().subject?.CN) : "";
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (text: string) => body += text);
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body, name }));
    });
    asked.on("error", reject);
    asked.end();
  });
}

test("--tls-cert-path and --tls-key-path serve HTTPS", async () => {
  await withFolder(async (file) => {
    const tls = ["--tls-cert-path", file("a.crt", crt), "--tls-key-path", file("a.key", key)];
    await withFakeWorkers([{}], async ([worker]) => {
      const { code, out, err } = await whileServing(["--worker-urls", worker!.url, ...tls], async (url) => {
        assert.match(url, /^https:/);
        const { status, body, name } = await get(`${url}/v1/models`);
        assert.deepEqual([status, name], [200, "localhost"]);
        assert.match(body, /org\/a/);
        // As a container asks itself, by an address that no certificate names.
        const io = fakeIo();
        const own = url.replace("localhost", "127.0.0.1");
        assert.equal(await runCommand([healthCommand], ["health", "--url", own], io), 0, io.err.text);
        assert.equal(io.out.text, `${own} lives\n`);
      });
      assert.equal(code, 0, err);
      assert.match(out, /curl https:/);
    });
  });
});

test("TLS files that are missing or broken, or do not belong together, stop the start", async () => {
  await withFolder(async (file) => {
    const [good, its] = [file("a.crt", crt), file("a.key", key)];
    const nothing = () => Promise.reject(new Error("It serves"));
    for (
      const [cert, keyPath, says] of [
        [`${good}.not`, its, /Cannot read .*a\.crt\.not/],
        [good, `${its}.not`, /Cannot read .*a\.key\.not/],
        [file("junk.crt", "junk"), its, /junk\.crt does not hold a certificate in PEM/],
        [good, file("junk.key", "junk"), /junk\.key does not hold a private key in PEM/],
        [good, file("b.key", other.key), /b\.key is not the key of the certificate in .*a\.crt/],
      ] as const
    ) {
      const tls = ["--enable-igw", "--tls-cert-path", cert, "--tls-key-path", keyPath];
      const { code, err } = await whileServing(tls, nothing);
      assert.equal(code, 1);
      assert.match(err, says);
    }
    const { code, err } = await whileServing(["--enable-igw", "--ca-cert-paths", `${good}.not`], nothing);
    assert.equal(code, 1);
    assert.match(err, /Cannot read .*a\.crt\.not/);
  });
});

test("a changed certificate is served to new connections, a broken one is not, and answers under way go on", async () => {
  await withFolder(async (file) => {
    const files = { cert: file("a.crt", crt), key: file("a.key", key) };
    const clock = new VirtualClock();
    let rest: (() => void) | undefined;
    const app = {
      fetch: (asked: Request) => {
        if (!asked.url.endsWith("/slow")) return new Response("fast");
        return new Response(
          new ReadableStream<Uint8Array>({
            start: (controller) => {
              controller.enqueue(new TextEncoder().encode("begin "));
              rest = () => {
                controller.enqueue(new TextEncoder().encode("end"));
                controller.close();
              };
            },
          }),
        );
      },
    };
    const server = serveTls(app, { host: "127.0.0.1", port: 0, files, clock });
    try {
      assert.equal((await get(server.url)).name, "localhost");
      const slow = get(`${server.url}/slow`);
      while (rest === undefined) await new Promise((resolve) => setImmediate(resolve));
      writeFileSync(files.cert, "junk");
      await clock.advance(6_000);
      assert.equal((await get(server.url)).name, "localhost", "the old one stays");
      writeFileSync(files.cert, other.cert);
      writeFileSync(files.key, other.key);
      await clock.advance(12_000);
      assert.equal((await get(server.url)).name, "other.example");
      rest();
      assert.equal((await slow).body, "begin end");
    } finally {
      await server.shutdown();
    }
  });
});

test("workers are reached over TLS by --ca-cert-paths, and see the certificate of --client-cert-path", async () => {
  await withFolder(async (file) => {
    const server = { cert: crt, key, ca: other.cert, requestCert: true, rejectUnauthorized: true };
    await withFakeWorkers([{ tls: server }], async ([worker]) => {
      const client = [
        "--client-cert-path",
        file("c.crt", other.cert),
        "--client-key-path",
        file("c.key", other.key),
      ];
      const args = ["--worker-urls", worker!.url, "--ca-cert-paths", file("ca.crt", crt)];
      const { code, err } = await whileServing([...args, ...client], async (url) => {
        assert.deepEqual(await models(url), ["org/a"]);
        assert.equal((await chat(url, "org/a")).status, 200);
      });
      assert.equal(code, 0, err);
    });
  });
});
