import { existsSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { CanopyError } from "../../base/errors.ts";
import { UsageError } from "../kit/args.ts";
import type { Server } from "../kit/client.ts";
import { defineCommand } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { serverOf, URL_OPTION } from "../kit/server_place.ts";
import { getRun, LAST_RUN, listRuns } from "./asked_run.ts";
import { chromeTrace } from "./chrome_trace.ts";
import { readShownRun } from "./shown_run.ts";

/** `canopy runs export`: records of runs as JSON lines, or one run as a trace. */
export const exportCommand = defineCommand({
  name: "runs export",
  summary: "Write whole records of runs as JSON lines, or one run as a trace for Perfetto",
  arguments: "[FILE] | RUN [FILE] --format chrome",
  maxArguments: 2,
  options: {
    ...URL_OPTION,
    format: {
      type: "text",
      value: "FORMAT",
      choices: ["jsonl", "chrome"],
      help: "jsonl (the default): records, one a line; chrome: one run in the Trace Event Format",
    },
    limit: {
      type: "number",
      value: "N",
      min: 1,
      help: "Most of them, the newest; 1000 by default",
    },
    model: { type: "text", value: "NAME", help: "Only runs of this graph" },
    force: { type: "flag", help: "Write over a FILE that is there" },
  },
  details:
    `Without FILE they are printed. JSON lines are for canopy tune, for canopy bench replay and for keeping: runs that
still go on are left out, and records hold what was asked and said. A trace is opened by https://ui.perfetto.dev and by chrome://tracing: a
track for each agent, with its waiting for a place, what was read ahead, prefill and decode, arrows from whom it
read, and each decision on early exit; it holds times, counts and names, and no texts. RUN is a run's id, or last.

Examples:
  canopy runs export runs.jsonl --model moa
  canopy tune runs.jsonl --risk 0.02 --confidence 0.95
  canopy runs export last trace.json --format chrome`,
  run: async (values, positional, io) => {
    const server = serverOf(values.url, io);
    const { model, limit, force } = values;
    if (values.format === "chrome") {
      if (model !== undefined || limit !== undefined) {
        throw new UsageError("--model and --limit go with --format jsonl: a trace is of one run");
      }
      const [id = LAST_RUN, file] = positional;
      const run = readShownRun(await getRun(server, id, io));
      give(`${JSON.stringify(chromeTrace(run))}\n`, { file, force, what: `${run.id} as a trace` }, io);
      return 0;
    }
    const [file, more] = positional;
    if (more !== undefined) {
      throw new UsageError(`Unexpected argument "${more}": RUN FILE goes with --format chrome`);
    }
    const lines = await recordLines({ server, model, limit }, io);
    give(lines.join(""), { file, force, what: `${lines.length} runs` }, io);
    return 0;
  },
});

async function recordLines(
  { server, model, limit = 1000 }: {
    readonly server: Server;
    readonly model: string | undefined;
    readonly limit: number | undefined;
  },
  io: Io,
): Promise<string[]> {
  const list = await listRuns(server, { limit, graph: model, ended: true }, io);
  const lines: string[] = [];
  let gone = 0;
  for (const { id } of list) {
    try {
      lines.push(`${JSON.stringify(await getRun(server, id, io))}\n`);
    } catch (error) {
      // A server that is busy keeps newer ones in its place.
      if (!CanopyError.is(error) || error.code !== "not_found") throw error;
      gone++;
    }
  }
  if (gone > 0) {
    const who = gone === 1 ? "1 run was listed and is" : `${gone} runs were listed and are`;
    io.err.write(`${who} no longer kept by the server: ${gone === 1 ? "it is" : "they are"} left out\n`);
  }
  return lines;
}

/** Prints a text, or writes it to a file and says so. Throws `UsageError` for a file that is there already. */
function give(
  text: string,
  { file, force, what }: {
    readonly file: string | undefined;
    readonly force: boolean;
    readonly what: string;
  },
  io: Io,
): void {
  if (file === undefined) return io.out.write(text);
  const path = resolve(io.cwd, file);
  if (!force && existsSync(path)) throw new UsageError(`${file} is there already: add --force`);
  writeFileSync(path, text);
  io.err.write(`${what} in ${file}\n`);
}
