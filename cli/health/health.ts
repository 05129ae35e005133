import { CanopyError } from "../../base/errors.ts";
import { isLoopback } from "../../base/hosts.ts";
import { unlessAborted } from "../../base/stop_signal.ts";
import type { Transport } from "../../base/transport.ts";
import { systemTransport } from "../../router/transport/system.ts";
import { getText } from "../kit/client.ts";
import { defineCommand } from "../kit/command.ts";
import { serverOf, URL_OPTION } from "../kit/server_place.ts";

const DEFAULT_SECONDS = 5;

/** `canopy health`: whether a server lives, for checks in containers that have no shell. */
export const healthCommand = defineCommand({
  name: "health",
  summary: "Say by the exit code whether a server lives",
  maxArguments: 0,
  options: {
    ...URL_OPTION,
    ready: {
      type: "flag",
      help: "Ask whether it takes requests now (/readiness), not only whether it lives",
    },
    timeout: {
      type: "number",
      value: "SECONDS",
      fraction: true,
      min: 0.1,
      help: `Time that it has for an answer; ${DEFAULT_SECONDS} by default`,
    },
  },
  details:
    `Exit code 0 when it answers 200, else 1 with the reason. Asks any server that has /health, engines too.
One of this machine may have any certificate: they do not name https://127.0.0.1.

Examples:
  canopy health
  canopy health --ready --url http://gpu1:8000`,
  run: async (values, _, io) => {
    const server = serverOf(values.url, io);
    const path = values.ready ? "/readiness" : "/health";
    const seconds = values.timeout ?? DEFAULT_SECONDS;
    const late = new AbortController();
    const asked = AbortSignal.any([io.stop, late.signal]);
    const answered = new AbortController();
    io.clock.sleep(1000 * seconds, answered.signal).then(
      () =>
        late.abort(
          new CanopyError(`${server.url}${path} did not answer within ${seconds} s`, {
            code: "health_timeout",
            status: 504,
          }),
        ),
      () => {},
    );
    const own = ownTransport(server.url);
    try {
      await unlessAborted(getText(own ?? io.transport, server, path, asked), asked);
    } finally {
      answered.abort();
      await own?.close();
    }
    io.out.write(`${server.url} ${values.ready ? "takes requests" : "lives"}\n`);
    return 0;
  },
});

/** The way to a server with TLS on this machine; undefined for others. */
function ownTransport(url: string): Transport | undefined {
  const { protocol, hostname } = new URL(url);
  return protocol === "https:" && isLoopback(hostname)
    ? systemTransport({ anyCertificate: true })
    : undefined;
}
