import { UsageError } from "../kit/args.ts";
import { defineCommand } from "../kit/command.ts";
import { initFolder, STARTER_FILE, STARTER_SCHEMA } from "../kit/init/init_folder.ts";

/** `canopy init`: a configuration for the servers that run here. */
export const initCommand = defineCommand({
  name: "init",
  summary: "Write a configuration for the servers of models that run here, or elsewhere",
  maxArguments: 0,
  options: {
    from: { type: "list", value: "URL", help: "A server, instead of looking at this host's usual ports" },
    "api-key-env": { type: "text", value: "NAME", help: "Environment variable that holds the servers' key" },
    force: { type: "flag", help: `Write over a configuration that is there` },
  },
  details:
    `Looks for Ollama, vLLM, SGLang, llama.cpp and LM Studio on this host, asks what models they have, and
writes ${STARTER_FILE} into this folder: up to three models answer, the largest of them joins the answers. It is
a beginning, with comments; ${STARTER_SCHEMA} beside it lets editors complete and check it.

Examples:
  canopy init
  canopy init --from http://gpu1:30000 --from http://gpu2:8000
  canopy init --from https://api.example.com --api-key-env EXAMPLE_KEY`,
  run: async (values, _, io) => {
    const keyName = values["api-key-env"];
    if (keyName !== undefined && io.env[keyName] === undefined) {
      throw new UsageError(`Option --api-key-env: the environment variable ${keyName} is not set`);
    }
    await initFolder({ from: values.from, apiKeyEnv: keyName, force: values.force }, io);
    io.out.write('\nNext:\n  canopy serve\n  canopy chat "Why is the sky blue?" --show\n');
    return 0;
  },
});
