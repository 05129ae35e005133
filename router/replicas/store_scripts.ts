/**
 * Scripts that the store runs, each as one step. Times are its own, so that replicas whose clocks differ agree. A
 * minute is counted in seconds as `MinuteWindow` does: the one that has begun, and the 60 before it.
 */

const NOW = `
local time = redis.call('TIME')
local second = tonumber(time[1])
local now = second * 1000 + math.floor(tonumber(time[2]) / 1000)
`;

/** Seconds after which nothing of a key is left that is not used. */
const KEPT_SECONDS = 120;

/**
 * Begins a request. KEYS: its key's requests and tokens by second, and its requests under way with the time until which
 * each counts. ARGV: limits of requests, tokens, requests at once (-1: none), the request's name, how long it counts if
 * nobody says that it goes on, in ms. Answers with the outcome, the time, and what was counted, second by second.
 */
export const ENTER_SCRIPT = `${NOW}
local function minute(key)
  local all, kept, sum = redis.call('HGETALL', key), {}, 0
  for at = 1, #all, 2 do
    local counted, count = tonumber(all[at]), tonumber(all[at + 1])
    if counted <= second - 61 then
      redis.call('HDEL', key, all[at])
    else
      kept[#kept + 1] = counted
      kept[#kept + 1] = count
      sum = sum + count
    end
  end
  return sum, kept
end
local function reached(limit, count)
  return tonumber(limit) >= 0 and count >= tonumber(limit)
end
local requests, begun = minute(KEYS[1])
local tokens, spent = minute(KEYS[2])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
local running = redis.call('ZCARD', KEYS[3])
if reached(ARGV[2], tokens) then return {'tokens', now, begun, spent} end
if reached(ARGV[3], running) then return {'concurrent', now, begun, spent} end
if reached(ARGV[1], requests) then return {'requests', now, begun, spent} end
redis.call('HINCRBY', KEYS[1], second, 1)
redis.call('EXPIRE', KEYS[1], ${KEPT_SECONDS})
redis.call('ZADD', KEYS[3], now + tonumber(ARGV[5]), ARGV[4])
redis.call('EXPIRE', KEYS[3], ${KEPT_SECONDS})
begun[#begun + 1] = second
begun[#begun + 1] = 1
return {'ok', now, begun, spent}
`;

/** Counts tokens in this second. KEYS: a key's tokens by second. ARGV: how many. */
export const SPEND_SCRIPT = `${NOW}
redis.call('HINCRBY', KEYS[1], second, ARGV[1])
redis.call('EXPIRE', KEYS[1], ${KEPT_SECONDS})
`;

/**
 * Says that members go on. KEYS: members with the time until which each counts. ARGV: how long these count from now, in
 * ms; the members. Answers with the number of all that count.
 */
export const KEEP_SCRIPT = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
for at = 2, #ARGV do
  redis.call('ZADD', KEYS[1], now + tonumber(ARGV[1]), ARGV[at])
end
redis.call('EXPIRE', KEYS[1], ${KEPT_SECONDS})
return redis.call('ZCARD', KEYS[1])
`;
