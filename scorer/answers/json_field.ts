import { isJsonObject, type Json } from "../../base/json.ts";
import { type FoundAnswer, textAnswer } from "./final_answer.ts";
import { readAnswer } from "./read_answer.ts";

/** Fields that hold an answer where the settings name none. */
const USUAL_FIELDS = ["answer", "final_answer", "result"];

/** The value of a field of the JSON that a text is, or that stands in its last fence or at its end. */
export function findField(
  text: string,
  question: string,
  field: string | undefined,
): FoundAnswer | undefined {
  const json = jsonOf(text);
  if (json === undefined) return undefined;
  for (const path of field === undefined ? USUAL_FIELDS : [field]) {
    const found = at(json, path);
    if (found === undefined || found === null) continue;
    const written = typeof found === "string" ? found : JSON.stringify(sorted(found));
    const answer = isJsonObject(found) || Array.isArray(found)
      ? textAnswer(written, `json:${written}`)
      : readAnswer(written, question);
    if (answer !== undefined) return answer;
  }
  return undefined;
}

function jsonOf(text: string): Json | undefined {
  const trimmed = text.trim();
  const fence = trimmed.split("```").filter((_, index) => index % 2 === 1).at(-1)?.replace(/^\w*\s*\n/u, "");
  // The object that ends the text: from one of the last places where one may start at the head of a line.
  const ending = trimmed.endsWith("}")
    ? [...trimmed.matchAll(/^\{/gmu)].slice(-4).map(({ index }) => trimmed.slice(index)).reverse()
    : [];
  for (const candidate of [trimmed, fence, ...ending]) {
    if (candidate === undefined || !/^\s*[[{]/u.test(candidate)) continue;
    try {
      const value: Json = JSON.parse(candidate);
      return value;
    } catch {
      continue;
    }
  }
  return undefined;
}

function at(json: Json, path: string): Json | undefined {
  let value: Json | undefined = json;
  for (const key of path.split(".")) {
    if (Array.isArray(value)) value = value[Number(key)];
    else if (isJsonObject(value)) value = Object.hasOwn(value, key) ? value[key] : undefined;
    else return undefined;
  }
  return value;
}

/** With the keys of all objects in order. */
function sorted(value: Json): Json {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1).map(([key, of]) => [key, sorted(of)]),
  );
}
