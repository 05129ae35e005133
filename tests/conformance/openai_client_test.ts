import { after, before } from "node:test";
import { openAIClientSuite } from "./openai_suite.ts";
import { serveTree } from "./served_tree.ts";

let served: Awaited<ReturnType<typeof serveTree>>;

before(async () => void (served = await serveTree()));

after(() => served.close());

openAIClientSuite(() => served.target);
