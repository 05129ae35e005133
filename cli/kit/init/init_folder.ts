import { writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { CanopyError } from "../../../base/errors.ts";
import { configJsonSchema } from "../../../cfgs/schema/json_schema.ts";
import { serverUrl } from "../client.ts";
import { findConfigFile } from "../config_file.ts";
import type { Io } from "../io.ts";
import { portProblem } from "../ports.ts";
import { oneLine } from "../terminal.ts";
import { findServers, type FindServersResult, USUAL_SERVERS } from "./find_servers.ts";
import { starterConfig } from "./starter_config.ts";

/** The file that `canopy init` writes. */
export const STARTER_FILE = "canopy.jsonc";
/** The JSON Schema beside it. */
export const STARTER_SCHEMA = "canopy.schema.json";
const FIRST_PORT = 8000;
const LAST_PORT = 8099;
/** Models that are named of a server; Ollama may list dozens. */
const NAMED_MODELS = 5;

/** What `canopy init` was asked for. */
export interface InitOptions {
  readonly from: readonly string[];
  readonly apiKeyEnv?: string | undefined;
  readonly force?: boolean | undefined;
}

/**
 * Writes a configuration into this folder and says what it found. Throws `CanopyError` where there is one already, or
 * no server with a model.
 */
export async function initFolder(options: InitOptions, io: Io): Promise<void> {
  const present = findConfigFile(io);
  if (present !== undefined && options.force !== true) {
    throw new CanopyError(
      `${basename(present)} is there already: add --force to write ${STARTER_FILE} all the same`,
      {
        code: "file_exists",
        status: 409,
      },
    );
  }
  const { found } = await lookFor(options, io);
  const taken = new Set(found.map(({ url }) => Number(new URL(url).port)));
  const config = starterConfig({
    servers: found,
    port: await freePort(taken),
    apiKeyEnv: options.apiKeyEnv,
    schema: `./${STARTER_SCHEMA}`,
  });
  if (config === undefined) {
    throw noServer(`None of ${found.map(({ url }) => url).join(", ")} lists a model that chats`);
  }
  writeFileSync(join(io.cwd, STARTER_SCHEMA), `${JSON.stringify(configJsonSchema(), null, 2)}\n`);
  writeFileSync(join(io.cwd, STARTER_FILE), config.text);
  const { proposers, aggregator } = config;
  const who = new Set(proposers).size === 1
    ? `${aggregator} answers ${proposers.length} times and joins its answers`
    : `${proposers.join(", ")} answer, ${aggregator} joins their answers`;
  io.out.write(`\nWrote ${STARTER_FILE}, and ${STARTER_SCHEMA} for editors: in moa ${who}.\n`);
}

/** Looks for servers, and says what is where; asks for a URL where none is found and somebody can answer. */
async function lookFor({ from, apiKeyEnv }: InitOptions, io: Io): Promise<FindServersResult> {
  const named = from.length > 0;
  const urls = named
    ? [...new Set(from.map(serverUrl))]
    : USUAL_SERVERS.map(([port]) => `http://127.0.0.1:${port}`);
  const apiKey = apiKeyEnv === undefined ? undefined : io.env[apiKeyEnv];
  if (!named) {
    io.out.write(`Looking at ports ${USUAL_SERVERS.map(([port]) => port).join(", ")} of this host …\n`);
  }
  const result = await findServers(urls, apiKey, io);
  for (const { url, engine, models } of result.found) {
    const more = models.length > NAMED_MODELS ? ` and ${models.length - NAMED_MODELS} more` : "";
    const kind = engine === "openai" ? "OpenAI-compatible" : engine;
    io.out.write(`${url}  ${kind}: ${oneLine(models.slice(0, NAMED_MODELS).join(", "))}${more}\n`);
  }
  for (const { url, problem } of named ? [...result.refused, ...result.silent] : result.refused) {
    io.out.write(`${url}  left out: ${oneLine(problem.replace(`${url} `, ""))}\n`);
  }
  if (result.found.length > 0) return result;
  if (named) throw noServer(`No server of models answers at ${urls.join(", ")}`);
  if (io.canAsk) {
    const url = (await io.ask("No server of models runs here. URL of one (empty: none): "))?.trim();
    if (url !== undefined && url !== "") return await lookFor({ from: [url], apiKeyEnv }, io);
  }
  throw noServer("No server of models runs here");
}

function noServer(why: string): CanopyError {
  return new CanopyError(
    `${why}: start one, or name one with --from URL; "canopy serve laboratory" serves small models without any`,
    { code: "no_server", status: 503 },
  );
}

/** The first port from 8000 on that nobody has. */
async function freePort(taken: ReadonlySet<number>): Promise<number> {
  for (let port = FIRST_PORT; port <= LAST_PORT; port++) {
    if (!taken.has(port) && await portProblem("127.0.0.1", port) === undefined) return port;
  }
  return FIRST_PORT;
}
