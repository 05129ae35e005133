import { isJsonObject, type Json } from "../../base/json.ts";
import { SystemClock } from "../../base/clock.ts";
import { Random } from "../../base/random.ts";
import { configSchema } from "../../cfgs/schema/config.ts";
import { commandsFor } from "../../cli/commands.ts";
import { createRouter } from "../../router/router.ts";
import { MemoryTransport } from "../../router/transport/memory.ts";
import { cliReference } from "./cli_reference.ts";
import { configurationReference } from "./configuration_reference.ts";
import { httpReference } from "./http_reference.ts";

/** The pages that are made from the code, by their paths in the project. */
export async function references(): Promise<ReadonlyMap<string, string>> {
  return new Map([
    ["docs/cli_reference.md", cliReference(await commandsFor([]))],
    ["docs/configuration_reference.md", configurationReference()],
    ["docs/http_reference.md", httpReference(await openApi())],
  ]);
}

/** What a router without models says at /openapi.json. */
async function openApi() {
  const clock = new SystemClock();
  const router = createRouter({
    config: configSchema.parse({}),
    clock,
    random: new Random("reference"),
    transport: new MemoryTransport(() => undefined),
  });
  try {
    const document: Json = await (await router.app.request("/openapi.json")).json();
    if (isJsonObject(document)) return document;
    throw new Error("Cannot write the reference: /openapi.json is no object");
  } finally {
    await router.close();
  }
}
