// Makes the binary of this platform: bun run compile

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildBinary } from "./build_binary.ts";

buildBinary(join(fileURLToPath(new URL("../", import.meta.url)), "dist/canopy"));
