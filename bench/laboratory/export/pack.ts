// Packs the models that come with the program into one file for its build: bun bench/laboratory/export/pack.ts TO

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { packFolder } from "../../../ml/hub/model_pack.ts";

const [to] = process.argv.slice(2);
if (to === undefined) throw new Error("Name the file to write");
mkdirSync(dirname(to), { recursive: true });
writeFileSync(to, packFolder(fileURLToPath(new URL("../../../models/", import.meta.url))));
