import { closeSync, existsSync, openSync, renameSync, writeSync } from "node:fs";
import { resolve } from "node:path";
import { CanopyError } from "../../../base/errors.ts";
import { readRecords, recordKey, recordLines } from "../../../bench/evaluation/read_records.ts";
import { differentSettings, settingSides } from "../../../bench/records/different_settings.ts";
import { UsageError } from "../../kit/args.ts";
import { defineCommand } from "../../kit/command.ts";

/** `canopy bench merge`: the parts of one evaluation in one file. */
export const benchMergeCommand = defineCommand({
  name: "bench merge",
  summary: "Put the parts of one evaluation into one file of records",
  arguments: "OUT FILE…",
  maxArguments: 10_001,
  options: {
    force: { type: "flag", help: "Overwrite OUT if it is there already" },
    partial: { type: "flag", help: "Leave out files that are not there or have no records, and name them" },
  },
  details:
    `The files are those of bench eval --records, such as of --shard 1/4 to 4/4. They must have been made with the
same settings. An answer that stands in several of them is taken from the last. The report of all of it:
canopy bench eval with the same options but --shard, and --records OUT, which then asks nothing.

Example:
  canopy bench merge all.jsonl part1.jsonl part2.jsonl`,
  run: (values, [out, ...files], io) => {
    if (out === undefined || files.length === 0) {
      throw new UsageError("Needs a file to write and files to read: canopy bench merge OUT FILE…");
    }
    const pathOf = (path: string) => resolve(io.cwd, path);
    const target = pathOf(out);
    if (existsSync(target) && !values.force) {
      throw new CanopyError(`Cannot write ${out}: it is there already; name another file, or --force`, {
        code: "cannot_write",
        status: 400,
      });
    }
    const left: CanopyError[] = [];
    const parts = files.flatMap((file) => {
      try {
        // A part may have had no question: there can be more parts than questions.
        return [{ file, settings: readRecords(pathOf(file), { mayBeEmpty: true }).settings }];
      } catch (error) {
        if (!values.partial || !(error instanceof CanopyError)) throw error;
        left.push(error);
        return [];
      }
    });
    const [first] = parts;
    if (first === undefined) throw left[0]!;
    for (const { message } of left) io.err.write(`Left out: ${message}\n`);
    for (const { file, settings } of parts) {
      if (settings === first.settings) continue;
      const [others, own] = settingSides(differentSettings(settings, first.settings));
      throw new CanopyError(
        `Cannot merge ${file}: it was made with ${others}, and ${first.file} with ${own}`,
        { code: "other_settings", status: 400 },
      );
    }
    const count = writeMerged(target, first.settings, parts.map(({ file }) => pathOf(file)));
    io.out.write(`${count} answers of ${parts.length} files: ${out}\n`);
    return Promise.resolve(0);
  },
});

/** Writes the last record of each answer, as it is, one by one: all of them may be more than memory holds. Gives their number. */
function writeMerged(target: string, settings: string, files: readonly string[]): number {
  const lines = function* () {
    for (const file of files) {
      for (const line of recordLines(file)) if ("record" in line) yield line;
    }
  };
  const last = new Map<string, number>();
  let number = 0;
  for (const { record } of lines()) last.set(recordKey(record), number++);
  number = 0;
  // The file may be one of those that are read.
  const written = `${target}.merging`;
  const file = openSync(written, "w");
  try {
    writeSync(file, `${JSON.stringify({ settings })}\n`);
    for (const line of lines()) {
      if (last.get(recordKey(line.record)) === number++) writeSync(file, `${JSON.stringify(line)}\n`);
    }
  } finally {
    closeSync(file);
  }
  renameSync(written, target);
  return last.size;
}
