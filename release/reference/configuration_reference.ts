import { configJsonSchema } from "../../cfgs/schema/json_schema.ts";
import { pageHead } from "./markdown.ts";
import { SchemaSections } from "./schema_sections.ts";

const HEAD = pageHead(
  "Configuration reference",
  "Every field of a configuration file, made from the schema that checks it (`deno task reference`). What the fields are for, with examples: [configuration.md](configuration.md). A default that is not here is said in the meaning, or depends on other fields: `canopy check FILE --effective` shows what a file comes to.",
  "`NAME` stands for a name of your own, `[]` for each member of a list.",
);

/** The page with every field of a configuration file. */
export function configurationReference(): string {
  const sections = new SchemaSections().sectionsOf("", configJsonSchema());
  return `${HEAD}\n${
    sections.map(({ heading, text }) => `## ${heading === "" ? "The file" : `\`${heading}\``}\n\n${text}\n`)
      .join("\n")
  }`;
}
