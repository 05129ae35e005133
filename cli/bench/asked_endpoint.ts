import { firstModel, listServed, type Server, serverUrl } from "../kit/client.ts";
import type { Io } from "../kit/io.ts";

const DEFAULTS = { url: "http://127.0.0.1:8000", timeoutSeconds: 600 };

/** Options of the commands that measure an endpoint. */
export const endpointOptions = {
  url: { type: "text", value: "URL", help: `The endpoint; ${DEFAULTS.url} by default` },
  model: {
    type: "text",
    value: "NAME",
    help: "Model or graph to ask; the first one of the list by default",
  },
  timeout: {
    type: "number",
    value: "SECONDS",
    min: 0.001,
    fraction: true,
    help: `Longest time for a request; ${DEFAULTS.timeoutSeconds} by default`,
  },
  seed: { type: "text", value: "TEXT", help: "The same seed sends the same prompts; canopy by default" },
} as const;

/** Values of `endpointOptions`. */
interface EndpointValues {
  readonly url?: string | undefined;
  readonly model?: string | undefined;
  readonly timeout?: number | undefined;
  readonly seed?: string | undefined;
}

/** An endpoint to be measured. */
export interface AskedEndpoint {
  readonly server: Server;
  readonly model: string;
  /** True where the server says that it is simulated. */
  readonly simulated: boolean;
  readonly timeoutMs: number;
  readonly seed: string;
}

/** Asks the endpoint for its models. Throws where it names none and the options do not either. */
export async function askedEndpoint(values: EndpointValues, io: Io): Promise<AskedEndpoint> {
  const server: Server = { url: serverUrl(values.url ?? DEFAULTS.url), apiKey: io.env.CANOPY_API_KEY };
  const served = await listServed(io.transport, server, io.stop).catch((error: unknown) => {
    // Not every compatible server lists its models.
    if (values.model === undefined) throw error;
    return [];
  });
  const model = values.model ?? firstModel(server, served);
  return {
    server,
    model,
    simulated: served.some((one) => one.id === model && one.simulated),
    timeoutMs: 1000 * (values.timeout ?? DEFAULTS.timeoutSeconds),
    seed: values.seed ?? "canopy",
  };
}
