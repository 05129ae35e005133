import { z } from "zod";
import { CanopyError } from "../../base/errors.ts";
import { parseJsonExactly } from "../../base/int64.ts";
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { jsonLinesOf } from "../kit/answers/answer_file.ts";
import { getJson, postJson, type Server } from "../kit/client.ts";
import { defineCommand } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { Progress } from "../kit/progress.ts";
import { serverOf, URL_OPTION } from "../kit/server_place.ts";
import { tableColumns } from "../kit/terminal.ts";
import { getRun, LAST_RUN } from "./asked_run.ts";
import { compared } from "./compared.ts";
import { replayNotes } from "./replay_notes.ts";
import { readRunList, readShownRun } from "./shown_run.ts";

const jsonObject = z.custom<JsonObject>(isJsonObject);

/** What a record says of the request behind its run. */
const askedSchema = z.looseObject({
  id: z.string(),
  draw_seed: z.string().nullish(),
  texts_kept: z.boolean().default(true),
  exits: z.array(z.unknown()).default([]),
  request: z.looseObject({ path: z.enum(["/v1/chat/completions", "/v1/completions"]), body: jsonObject })
    .nullish(),
});

/** Time between two looks at whether a run whose answer is there has ended, and most of them for its record to come. */
const LOOK_MS = 25;
const MAX_LOOKS = 200;

/** `canopy runs replay`: the question of a recorded run once more. */
export const replayCommand = defineCommand({
  name: "runs replay",
  summary: "Ask a run's question again, with its settings and its seed, and compare the two runs",
  arguments: "[RUN]",
  maxArguments: 1,
  options: {
    ...URL_OPTION,
    from: {
      type: "text",
      value: "FILE",
      help: "A file of canopy runs export, or -, that holds the run; by default the server does",
    },
    model: { type: "text", value: "NAME", help: "Ask this graph; by default the one that was asked" },
    json: { type: "flag", help: "Print the new run's record as JSON, and no comparison" },
  },
  details:
    `RUN is a run's id, as in an answer's x-canopy-run-id; without it the newest one, of the server or of the file. Its
record must have its texts: those of the last runs are in the server's memory, those of a file are there with
server.records.texts. Behind the comparison stands what could not be the same: agents that sample without a seed,
a graph that is configured otherwise now.

Examples:
  canopy runs replay last
  canopy runs replay run_0123456789abcdef --model moa-dense
  canopy runs replay --from runs.jsonl --url http://gpu2:8000`,
  run: async (values, [id = LAST_RUN], io) => {
    const server = serverOf(values.url, io);
    const first = values.from === undefined
      ? await getRun(server, id, io)
      : await recordIn(values.from, id, io);
    const { request, addedSeed } = requestOf(first, values.model);
    const second = await askAgain(server, request, io);
    if (values.json) io.out.write(`${JSON.stringify(second, null, 2)}\n`);
    else {
      const [a, b] = [readShownRun(first), readShownRun(second)];
      const notes = replayNotes(a, b, addedSeed);
      io.out.write(
        `${
          [...compared(a, b, tableColumns(io.out)), ...(notes.length === 0 ? [] : ["", ...notes])].join("\n")
        }\n`,
      );
    }
    return 0;
  },
});

/** The record of a run in a file of JSON lines, which has the newest one first. Throws `invalid_input`. */
async function recordIn(file: string, id: string, io: Io): Promise<Json> {
  const lines = await jsonLinesOf(file, io, "runs");
  const found = lines.find(({ value }) => id === LAST_RUN || (isJsonObject(value) && value["id"] === id));
  if (found !== undefined) return parseJsonExactly(found.line, ["seed"]);
  throw new CanopyError(`Cannot replay ${id} from ${file}: there is no such run among its ${lines.length}`, {
    code: "run_not_found",
    status: 404,
  });
}

interface AgainRequest {
  readonly path: string;
  readonly body: JsonObject;
}

/** The request to send; where it had no seed, but early exit drew by one, by that. Throws for a record without it. */
function requestOf(
  record: Json,
  model: string | undefined,
): { readonly request: AgainRequest; readonly addedSeed: string | undefined } {
  const parsed = askedSchema.safeParse(record);
  const { id = "the run", request, texts_kept: kept = true, draw_seed: drawn, exits = [] } = parsed.data ??
    {};
  if (request === undefined || request === null) throw nothingToAsk(id, kept);
  const { path, body } = request;
  const addedSeed = body["seed"] === undefined && exits.length > 0 ? drawn ?? undefined : undefined;
  const asked = { ...body, ...(model === undefined ? {} : { model }) };
  return {
    request: { path, body: addedSeed === undefined ? asked : { ...asked, seed: Number(addedSeed) } },
    addedSeed,
  };
}

function nothingToAsk(id: string, textsKept: boolean): CanopyError {
  const why = textsKept
    ? "its request brought a graph of its own, or an older Canopy has recorded it: send the request itself again"
    : "the record has no texts: set server.records.texts to true before runs that are to be replayed";
  return new CanopyError(`Cannot replay ${id}: ${why}`, { code: "nothing_to_replay", status: 400 });
}

/** Sends a request and gives the record of its run, which may have failed. Throws where there is none. */
async function askAgain(server: Server, { path, body }: AgainRequest, io: Io): Promise<Json> {
  const requestId = `replay-${io.random.hex(24)}`;
  const progress = new Progress(io);
  progress.show(`Asking ${String(body["model"])} again …`);
  let failure: unknown;
  try {
    await postJson(io.transport, server, { path, body, requestId }, io.stop);
  } catch (error) {
    failure = error;
  } finally {
    progress.end();
  }
  for (let look = 0; look < MAX_LOOKS; look++) {
    const list = await getJson(io.transport, server, `/v1/runs?limit=1&request_id=${requestId}`, io.stop);
    const [run] = readRunList(list).data;
    if (run !== undefined && run.state !== "running") return await getRun(server, run.id, io);
    if (failure !== undefined && run === undefined) throw failure;
    await io.clock.sleep(LOOK_MS, io.stop);
  }
  throw new CanopyError(
    `The server at ${server.url} has answered, but has no record of the run: ${
      String(body["model"])
    } may be no ` +
      "graph, or server.records.keep is false",
    { code: "run_not_found", status: 404 },
  );
}
