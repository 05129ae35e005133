import { z } from "zod";

/** What is kept of finished runs. */
export const recordsSchema = z.strictObject({
  keep: z.boolean().default(true).describe("false: nothing is kept of a run that has ended"),
  file: z.string().min(1).optional().describe(
    "SQLite file in which finished runs are recorded, made if it is not there; none: they are in memory alone",
  ),
  texts: z.boolean().default(false).describe(
    "Record prompts and answers in the file, too; without them it has times, counts, decisions and errors",
  ),
  max_age_days: z.number().positive().max(36_500).default(30).describe(
    "Older runs are removed from the file",
  ),
  max_bytes: z.int().min(1024 * 1024).default(256 * 1024 * 1024).describe(
    "Largest file: the oldest runs are removed",
  ),
});
