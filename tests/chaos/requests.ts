/** A request of the catalogue, by any of the ways in. */
export interface ChaosRequest {
  readonly path: string;
  readonly kind: "tree" | "relay";
  readonly models: readonly string[];
  readonly body: Readonly<Record<string, unknown>>;
}

const question = (content: string) => [{ role: "user", content }];

/** Requests whose answers are long enough to be struck in the middle. */
export const CATALOGUE: readonly ChaosRequest[] = [
  {
    path: "/v1/chat/completions",
    kind: "relay",
    models: ["8b"],
    body: { model: "8b", max_tokens: 40, messages: question("Why is the sky blue?") },
  },
  {
    path: "/v1/completions",
    kind: "relay",
    models: ["4b"],
    body: { model: "4b", max_tokens: 60, prompt: "Once upon a time" },
  },
  {
    path: "/generate",
    kind: "relay",
    models: ["8b"],
    body: { model: "8b", text: "Two and two are", sampling_params: { max_new_tokens: 30 } },
  },
  {
    path: "/v1/chat/completions",
    kind: "tree",
    models: ["4b", "8b", "32b"],
    body: { model: "moa", temperature: 0, messages: question("What is a tree?") },
  },
];

/** The graph behind `moa`: every answer counts, so that its text depends on no failure. */
export const CHAOS_GRAPHS = {
  moa: {
    layers: [
      { agents: [{ model: "4b" }, { model: "8b" }], min_responses: 2 },
      { agents: [{ model: "32b" }] },
    ],
    sampling: { max_tokens: 24, temperature: 0 },
    deadline_ms: 120_000,
  },
};

/** What is in an answer's body. */
export interface ReadAnswer {
  readonly text: string;
  readonly begun: boolean;
  readonly whole: boolean;
  readonly errors: readonly string[];
}

/** Reads the bytes of an answer as far as they came. Throws for what no client could read. */
export function readAnswer(request: ChaosRequest, stream: boolean, status: number, body: string): ReadAnswer {
  if (status !== 200) return { text: "", begun: false, whole: false, errors: body === "" ? [] : [body] };
  if (!stream) {
    const whole = isJson(body);
    return { text: whole ? textOf(request, JSON.parse(body)) : "", begun: body !== "", whole, errors: [] };
  }
  const events = body.split("\n\n");
  const torn = events.pop() ?? "";
  const errors: string[] = [];
  let text = "";
  let done = 0;
  let begun = false;
  for (const event of events) {
    // A torn event ends where the error event begins.
    if (!event.startsWith("data: ")) throw new Error(`not an event: ${JSON.stringify(event)}`);
    const data = event.slice("data: ".length);
    if (done > 0) throw new Error(`more after [DONE]: ${JSON.stringify(data)}`);
    if (data === "[DONE]") {
      done++;
      continue;
    }
    const value: Record<string, unknown> = JSON.parse(data);
    if (value.error !== undefined) {
      errors.push(data);
      continue;
    }
    if (errors.length > 0) throw new Error(`more after an error: ${JSON.stringify(data)}`);
    begun = true;
    text = request.path === "/generate" ? textOf(request, value) : text + textOf(request, value);
  }
  return { text, begun, whole: done === 1 && torn === "", errors };
}

function textOf({ path }: ChaosRequest, value: unknown): string {
  if (path === "/generate") return stringAt(value, ["text"]);
  if (path === "/v1/completions") return stringAt(value, ["choices", "0", "text"]);
  return stringAt(value, ["choices", "0", "message", "content"]) ||
    stringAt(value, ["choices", "0", "delta", "content"]);
}

function stringAt(value: unknown, path: readonly string[]): string {
  const found = path.reduce<unknown>(
    (inner, name) => typeof inner === "object" && inner !== null ? Reflect.get(inner, name) : undefined,
    value,
  );
  return typeof found === "string" ? found : "";
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
