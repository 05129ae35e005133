import type { Json } from "../../base/json.ts";
import type { Turns } from "../../base/turns.ts";
import type { Random } from "../../base/random.ts";
import { bootstrapFields, bootstrapLists } from "../engines/sglang/bootstrap.ts";
import { decodeRankFields, RANK_MEMBERS, type RankFields, rankFields } from "../engines/sglang/ranks.ts";
import { PromptPrefix } from "../pool/prompt_prefix.ts";
import { allRewrites, type AnswerRewrite } from "./answer_rewrite.ts";
import { ModelRename } from "./model_rename.ts";
import type { RelayRequest } from "./relay_types.ts";
import {
  attemptIds,
  batchSize,
  clientRids,
  REQUEST_ID_MEMBERS,
  type RequestIds,
  takesRequestId,
} from "./request_ids.ts";
import { RidRename } from "./rid_rename.ts";
import type { ServedModel } from "../served/served_model.ts";
import { findValue, JsonFault } from "../wire/json_scan.ts";
import {
  type Edit,
  readTopLevel,
  readTopLevelInTurns,
  setMembers,
  stringMember,
  type TopLevel,
} from "../wire/splice_json.ts";
import type { Placement } from "../worker/placement.ts";

/** What one attempt changes in the body. */
export interface AttemptEdits {
  readonly edits: readonly Edit[];
  /** Those for the prefill half, where they are others. */
  readonly prefillEdits?: readonly Edit[] | undefined;
  /** Ids to abort when the client goes; undefined where closing the connection is enough. */
  readonly ids: RequestIds | undefined;
}

/** What a body says of the place of its attempt. */
type AttemptPlace = Pick<Placement, "rank" | "prefill">;

const BOOTSTRAP = ["bootstrap_host", "bootstrap_port", "bootstrap_room"];
/** Members in which a prompt begins, whatever the path. */
const PROMPT_MEMBERS = ["messages", "system", "prompt", "text", "input_ids", "input", "instructions"];
const PROMPT_NAMES = PROMPT_MEMBERS.map((name) => new TextEncoder().encode(name));
const LOGPROBS = ["return_logprob", "logprob_start_len", "token_ids_logprob", "echo", "logprobs"];

const MEMBERS = ["model", ...REQUEST_ID_MEMBERS];
const PAIR_MEMBERS = [...MEMBERS, ...BOOTSTRAP, ...LOGPROBS];
const RANKED_MEMBERS = [...MEMBERS, ...RANK_MEMBERS];
const RANKED_PAIR_MEMBERS = [...PAIR_MEMBERS, ...RANK_MEMBERS];
const PRIORITY = ["priority"];
const NONE: TopLevel["values"] = new Map();
const UNCHANGED: AttemptEdits = { edits: [], ids: undefined };

/** Length of a body, in bytes, that is looked at and changed in turns of the event loop. */
export const LONG_BODY = 1024 * 1024;

/** Changes that a request needs on its way, found in one scan of its body; without need, nothing is scanned. */
export class RequestPlan {
  /** The name to write into answers; undefined when the engine's own name is what the client asked for. */
  readonly askedModel: string | undefined;
  /** The client's own ids: one, or one for each prompt; undefined where it gave none. */
  readonly ownRids: string | readonly string[] | undefined;
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
  /** The client's own id of a whole batch. */
  readonly #oneRid: string | undefined;

  /** Throws 400 `invalid_json` when the body must be read and is not a JSON object, and for a `rid` that is no id. */
  constructor(model: ServedModel, request: RelayRequest, scan: typeof readTopLevel = readTopLevel) {
    const { config } = model;
    const { engine } = config;
    const hasBody = request.method === "POST" && request.body.length > 0 &&
      !request.headers["content-type"]?.startsWith("multipart/");
    this.#body = request.body;
    this.#needsIds = hasBody && engine.startsWith("sglang") && takesRequestId(request.path);
    this.paired = engine === "sglang-pd" && this.#needsIds;
    const mayRename = hasBody && (config.model !== model.name || request.renames === true);
    this.#members = {};
    this.needsPrefillLogprobs = false;
    const ordersQueue = hasBody && model.engine.capabilities.priority === "lower_first";
    this.priority = ordersQueue ? priorityOf(request, scan) : undefined;
    if (!this.#needsIds && !mayRename) return;
    const members = membersOf(this.paired, config.dp_aware);
    const top = unscanned(request, members, mayRename ? config.model : undefined) ??
      scan(request.body, members);
    this.needsPrefillLogprobs = this.paired && asksForPrompt(request, top);
    this.ownRids = this.#needsIds ? clientRids(request.body, top) : undefined;
    this.#oneRid = this.#needsIds ? stringMember(request.body, top, "rid") : undefined;
    const asked = stringMember(request.body, top, "model");
    this.#top = top;
    if (!mayRename || asked === undefined || asked === config.model) return;
    this.askedModel = asked;
    this.#members = { model: JSON.stringify(config.model) };
  }

  /** The plan of a request with a long body. Throws as the constructor does. */
  static *inTurns(model: ServedModel, request: RelayRequest): Turns<RequestPlan> {
    const { config, engine, name } = model;
    const mayRename = config.model !== name || request.renames === true;
    const isScanned = config.engine.startsWith("sglang") || mayRename ||
      engine.capabilities.priority === "lower_first";
    const members = membersOf(true, config.dp_aware);
    let top: TopLevel | undefined;
    try {
      if (isScanned && unscanned(request, members, mayRename ? config.model : undefined) === undefined) {
        top = yield* readTopLevelInTurns(request.body, [...members, ...PRIORITY]);
      }
    } catch (error) {
      // Not every body need be JSON: whether this one does, the plan knows.
      if (!(error instanceof JsonFault)) throw error;
    }
    return new RequestPlan(model, request, top && (() => top));
  }

  /**
   * What the next attempt writes into the body: ids of its own, for a pair a room of its own for each prompt, and the
   * ranks of its place. `version`: of the servers.
   */
  attempt(random: Random, place: AttemptPlace, version: string | undefined): AttemptEdits {
    const top = this.#top;
    const { prefill } = place;
    if (top === undefined) return UNCHANGED;
    const members: Record<string, string> = { ...this.#members };
    const prompts = this.#needsIds ? batchSize(this.#body, top) : undefined;
    const ids = this.#needsIds ? attemptIds(this.ownRids, prompts, random) : undefined;
    if (ids !== undefined) members.rid = ids.written;
    if (this.paired && prefill !== undefined) {
      const fields = prompts === undefined
        ? bootstrapFields(prefill, random)
        : bootstrapLists(prefill, prompts, random);
      members.bootstrap_host = jsonOf(fields.bootstrap_host);
      members.bootstrap_port = jsonOf(fields.bootstrap_port);
      members.bootstrap_room = jsonOf(fields.bootstrap_room);
    }
    const isPlaced = this.#needsIds && (place.rank !== undefined || prefill?.rank !== undefined);
    if (!isPlaced && !this.#saysRank) return { edits: setMembers(top, members), ids };
    const editsWith = (ranks: RankFields) => setMembers(top, { ...members, ...rankMembers(top, ranks) });
    if (!isPlaced) return { edits: editsWith({}), ids };
    if (!this.paired || prefill === undefined) return { edits: editsWith(rankFields(place)), ids };
    return {
      edits: editsWith(decodeRankFields(place, version)),
      prefillEdits: editsWith(rankFields(prefill)),
      ids,
    };
  }

  /** True where the client names a rank, which is not for it to say. */
  get #saysRank(): boolean {
    return RANK_MEMBERS.some((name) => this.#top?.values.has(name));
  }

  /** The prompt as policies look at it; undefined for a request without a body. */
  get prompt(): PromptPrefix | undefined {
    if (this.#body.length === 0) return undefined;
    const top = this.#top;
    return PromptPrefix.ofBody(this.#body, (body) => promptInTop(top) ?? findValue(body, PROMPT_NAMES));
  }

  /** True when answers may have to be changed. */
  get rewrites(): boolean {
    return this.askedModel !== undefined || this.ownRids !== undefined;
  }

  /** The names that the client asked by, written into the answers to an attempt; undefined when they are right as they are. */
  rewrite(ids: RequestIds | undefined): AnswerRewrite | undefined {
    const rewrites: AnswerRewrite[] = [];
    if (this.askedModel !== undefined) rewrites.push(new ModelRename(this.askedModel));
    if (this.ownRids !== undefined && ids !== undefined) rewrites.push(new RidRename(ids, this.ownRids));
    return allRewrites(rewrites);
  }

  /** The ids by which the client can know an attempt, each with those that it stands for. */
  knownRids({ rids }: RequestIds): (readonly [rid: string, rids: readonly string[]])[] {
    const own = this.ownRids ?? rids;
    if (typeof own === "string") return [[own, rids]];
    const each = own.map((rid, i) => [rid, rids.slice(i, i + 1)] as const);
    return this.#oneRid === undefined ? each : [[this.#oneRid, rids], ...each];
  }
}

function jsonOf(value: Json): string {
  return typeof value === "number" ? String(value) : JSON.stringify(value);
}

function membersOf(paired: boolean, ranked: boolean): readonly string[] {
  if (ranked) return paired ? RANKED_PAIR_MEMBERS : RANKED_MEMBERS;
  return paired ? PAIR_MEMBERS : MEMBERS;
}

/** The members that name ranks; those that the client gave are not for it to say here. */
function rankMembers(top: TopLevel, ranks: RankFields): Record<string, string> {
  const members: Record<string, string> = {};
  for (const name of RANK_MEMBERS) {
    const rank = ranks[name];
    if (rank !== undefined) members[name] = String(rank);
    else if (top.values.has(name)) members[name] = "null";
  }
  return members;
}

/**
 * What a scan would find in a body that was parsed and has none of these members, but for a `model` that stays as it is;
 * undefined where it has to be scanned. `model`: the name that it is to have, if any.
 */
function unscanned(
  { body, parsed }: RelayRequest,
  members: readonly string[],
  model: string | undefined,
): TopLevel | undefined {
  if (parsed === undefined || (model !== undefined && parsed["model"] !== model)) return undefined;
  let empty = true;
  for (const name in parsed) {
    if (name !== "model" && members.includes(name)) return undefined;
    empty = false;
  }
  return { openedAt: body.indexOf(0x7b) + 1, empty, values: NONE };
}

/** Where a prompt begins that the scan of the body has found already. */
function promptInTop(top: TopLevel | undefined): number | undefined {
  let first: number | undefined;
  for (const name of top === undefined ? [] : PROMPT_MEMBERS) {
    const start = top?.values.get(name)?.[0]?.start;
    if (start !== undefined && start < (first ?? Infinity)) first = start;
  }
  return first;
}

/** The body's `priority`; undefined without one, and where the body is no JSON object, which its server will say. */
function priorityOf({ body, parsed }: RelayRequest, scan: typeof readTopLevel): number | undefined {
  try {
    if (parsed !== undefined) return typeof parsed["priority"] === "number" ? parsed["priority"] : undefined;
    const range = scan(body, PRIORITY).values.get("priority")?.at(-1);
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
