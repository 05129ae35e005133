// Writes the pages of docs/ that are made from the code: deno task reference

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { references } from "./references.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
for (const [path, text] of await references()) writeFileSync(join(ROOT, path), text);
