import { existsSync, writeFileSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { CanopyError } from "../../../base/errors.ts";
import type { EvalRecord } from "../../../bench/evaluation/eval_record.ts";
import { readRecords, recordKey } from "../../../bench/evaluation/read_records.ts";
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
    const pathOf = (path: string) => isAbsolute(path) ? path : join(io.cwd, path);
    const target = pathOf(out);
    if (existsSync(target) && !values.force) {
      throw new CanopyError(`Cannot write ${out}: it is there already; name another file, or --force`, {
        code: "cannot_write",
        status: 400,
      });
    }
    const all = new Map<string, EvalRecord>();
    let settings: string | undefined;
    for (const file of files) {
      // A part may have had no question: there can be more parts than questions.
      const kept = readRecords(pathOf(file), { mayBeEmpty: true });
      settings ??= kept.settings;
      if (kept.settings !== settings) {
        const [others, first] = settingSides(differentSettings(kept.settings, settings));
        throw new CanopyError(
          `Cannot merge ${file}: it was made with ${others}, and ${files[0]} with ${first}`,
          { code: "other_settings", status: 400 },
        );
      }
      for (const record of kept.records) all.set(recordKey(record), record);
    }
    const lines = [{ settings }, ...[...all.values()].map((record) => ({ record }))];
    writeFileSync(target, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    io.out.write(`${all.size} answers of ${files.length} files: ${out}\n`);
    return Promise.resolve(0);
  },
});
