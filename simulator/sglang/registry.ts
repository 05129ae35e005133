import { SGLANG } from "../engine/sglang_version.ts";
import { jsonReply, type Reply, type ServedRequest } from "../server/reply.ts";

const SERVER = "Python/3.11 aiohttp/3.14.5";

/** Facts that a registry tells of its prefill server. */
export interface RegistryFacts {
  /** As `versionNumber` has it. */
  readonly version: number;
  readonly host: string;
  readonly httpPort: number;
  readonly pageSize: number;
}

/** Answers requests to the bootstrap registry of a prefill server. */
export function registryReply(request: ServedRequest, facts: RegistryFacts): Reply {
  const { version } = facts;
  if (request.path === "/health") return text(200, "OK");
  if (request.path === "/route" && request.method === "GET") return route(request.query, facts);
  if (version >= SGLANG.errorEvents && request.method === "POST") {
    if (request.path === "/query_dp_ranks") return json({});
    if (request.path === "/register_dp_rank") return text(200, "OK");
  }
  return text(404, "404: Not Found");
}

function route(query: URLSearchParams, { version, host, httpPort, pageSize }: RegistryFacts): Reply {
  const old = version < SGLANG.errorEvents;
  const names = old
    ? ["engine_rank", "target_dp_group", "target_pp_rank"]
    : ["prefill_dp_rank", "prefill_cp_rank", "target_tp_rank", "target_pp_rank"];
  const ranks = names.map((name) => query.get(name));
  if (ranks.includes(null)) return text(400, "Missing inputs for bootstrap server.");
  if (ranks.every((rank) => rank === "-1")) {
    return json(
      old ? { prefill_attn_tp_size: 1, prefill_dp_size: 1, prefill_pp_size: 1 } : {
        attn_tp_size: 1,
        attn_cp_size: 1,
        dp_size: 1,
        pp_size: 1,
        page_size: pageSize,
        kv_cache_dtype: "auto",
        follow_bootstrap_room: true,
        ...(version >= SGLANG.legsNotify ? { enable_dsa_cache_layer_split: false } : {}),
        ...(version >= SGLANG.newest
          ? { decode_allocation_policy: "early", enable_kv_cache_sharding: false }
          : {}),
        ...(version >= SGLANG.legsNotify ? { prefill_http_port: httpPort } : {}),
        target_tp_rank: null,
        target_tp_ranks: null,
        target_cp_ranks: null,
        target_pp_ranks: null,
        required_dst_info_num: null,
        required_prefill_response_num: null,
      },
    );
  }
  const [dp, cp, tp, pp] = ranks;
  if (!old && ranks.some((rank) => rank !== "0")) {
    return text(404, `Bootstrap info not found for dp_rank=${dp} cp_rank=${cp} tp_rank=${tp} pp_rank=${pp}`);
  }
  return json({ rank_ip: host, rank_port: 40_000 });
}

/** aiohttp writes Python's spaces. */
function json(value: Record<string, number | string | boolean | null>): Reply {
  const body = `{${
    Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${JSON.stringify(item)}`).join(", ")
  }}`;
  const reply = jsonReply(200, {});
  return {
    ...reply,
    headers: { "content-type": "application/json; charset=utf-8", server: SERVER },
    body,
    bare: true,
  };
}

function text(status: number, body: string): Reply {
  return {
    status,
    headers: { "content-type": "text/plain; charset=utf-8", server: SERVER },
    body,
    bare: true,
  };
}
