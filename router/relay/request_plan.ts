import type { Random } from "../../base/random.ts";
import { bootstrapFields, bootstrapLists } from "../engines/sglang/bootstrap.ts";
import type { RelayRequest } from "./relay_types.ts";
import { attemptIds, batchSize, REQUEST_ID_MEMBERS, takesRequestId } from "./request_ids.ts";
import type { ServedModel } from "../served/served_model.ts";
import { applyEdits, readTopLevel, setMembers, stringMember, type TopLevel } from "../wire/splice_json.ts";
import type { PrefillSide } from "../worker/placement.ts";

/** The body of one attempt. */
export interface AttemptBody {
  readonly bytes: Uint8Array;
  /** Ids to abort when the client goes; empty where closing the connection is enough. */
  readonly rids: readonly string[];
}

const BOOTSTRAP = ["bootstrap_host", "bootstrap_port", "bootstrap_room"];
const LOGPROBS = ["return_logprob", "logprob_start_len", "token_ids_logprob", "echo", "logprobs"];

/** Changes that a request needs on its way, found in one scan of its body; without need, nothing is scanned. */
export class RequestPlan {
  /** The name to write into answers; undefined when the engine's own name is what the client asked for. */
  readonly askedModel: string | undefined;
  /** True when both servers of a pair have to get the request. */
  readonly paired: boolean;
  /** True when decode's answer lacks log-probabilities that the request asks for: those of the prompt. */
  readonly needsPrefillLogprobs: boolean;
  /** Stated by the request, lower first, for servers that order their own queue by it. */
  readonly priority: number | undefined;
  readonly #body: Uint8Array;
  readonly #top: TopLevel | undefined;
  /** Members to write in every attempt. */
  readonly #members: Readonly<Record<string, string>>;
  readonly #needsIds: boolean;

  /** Throws 400 `invalid_json` when the body must be read and is not a JSON object. */
  constructor(model: ServedModel, request: RelayRequest) {
    const { config } = model;
    const { engine } = config;
    const hasBody = request.method === "POST" && request.body.length > 0;
    this.#body = request.body;
    this.#needsIds = hasBody && engine.startsWith("sglang") && takesRequestId(request.path);
    this.paired = engine === "sglang-pd" && this.#needsIds;
    const mayRename = hasBody && config.model !== model.name;
    this.#members = {};
    this.needsPrefillLogprobs = false;
    const ordersQueue = hasBody && model.engine.capabilities.priority === "lower_first";
    this.priority = ordersQueue ? bodyPriority(request.body) : undefined;
    if (!this.#needsIds && !mayRename) return;
    const top = readTopLevel(request.body, [
      "model",
      ...REQUEST_ID_MEMBERS,
      ...(this.paired ? [...BOOTSTRAP, ...LOGPROBS] : []),
    ]);
    this.needsPrefillLogprobs = this.paired && asksForPrompt(request, top);
    const asked = stringMember(request.body, top, "model");
    this.#top = top;
    if (!mayRename || asked === undefined || asked === config.model) return;
    this.askedModel = asked;
    this.#members = { model: JSON.stringify(config.model) };
  }

  /** The body of the next attempt, with ids of its own and, for a pair, a room of its own for each prompt. */
  attempt(random: Random, prefill: PrefillSide | undefined): AttemptBody {
    const top = this.#top;
    if (top === undefined) return { bytes: this.#body, rids: [] };
    const members: Record<string, string> = { ...this.#members };
    const ids = this.#needsIds ? attemptIds(this.#body, top, random) : { rids: [], written: undefined };
    if (ids.written !== undefined) members.rid = ids.written;
    if (this.paired && prefill !== undefined) {
      const prompts = batchSize(this.#body, top);
      const fields = prompts === undefined
        ? bootstrapFields(prefill, random)
        : bootstrapLists(prefill, prompts, random);
      for (const [name, value] of Object.entries(fields)) members[name] = JSON.stringify(value);
    }
    return { bytes: applyEdits(this.#body, setMembers(top, members)), rids: ids.rids };
  }
}

/** The body's `priority`; undefined without one, and where the body is no JSON object, which its server will say. */
function bodyPriority(body: Uint8Array): number | undefined {
  try {
    const range = readTopLevel(body, ["priority"]).values.get("priority")?.at(-1);
    const value: unknown = range &&
      JSON.parse(new TextDecoder().decode(body.subarray(range.start, range.end)));
    return typeof value === "number" ? value : undefined;
  } catch {
    return undefined;
  }
}

/** True when log-probabilities of the prompt, or of given ids, are asked for. */
function asksForPrompt({ path, body }: RelayRequest, top: TopLevel): boolean {
  const given = (name: string, ...nothing: readonly string[]) => {
    const range = top.values.get(name)?.at(-1);
    if (range === undefined) return false;
    // What is longer is a list.
    const value = new TextDecoder().decode(body.subarray(range.start, Math.min(range.end, range.start + 8)));
    return value !== "null" && !nothing.includes(value);
  };
  if (path === "/v1/completions") return given("echo", "false") && given("logprobs", "false");
  return path === "/generate" && given("return_logprob", "false") &&
    (given("logprob_start_len", "-1") || given("token_ids_logprob"));
}
