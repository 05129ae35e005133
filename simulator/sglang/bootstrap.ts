import type { Json, JsonObject } from "../../base/json.ts";
import type { Bootstrap } from "../pd/role.ts";

/** The meeting place of one prompt; samples and ids are added per answer. */
export type MeetingPlace = Pick<Bootstrap, "host" | "port" | "room">;

/**
 * The meeting places of a request's prompts. A list has one entry per prompt; of a single value hosts and ports are
 * repeated and rooms counted up, as both servers do.
 */
export function meetingPlaces(body: JsonObject, prompts: number): MeetingPlace[] {
  const { bootstrap_host: host, bootstrap_port: port, bootstrap_room: room } = body;
  return Array.from({ length: prompts }, (_, i) => {
    const ownHost = itemOf(host, i);
    const ownPort = itemOf(port, i);
    const ownRoom = itemOf(room, i);
    return {
      host: typeof ownHost === "string" ? ownHost : undefined,
      port: typeof ownPort === "number" ? ownPort : undefined,
      room: typeof ownRoom !== "number" ? undefined : Array.isArray(room) ? ownRoom : ownRoom + i,
    };
  });
}

function itemOf(value: Json | undefined, index: number): Json | undefined {
  return Array.isArray(value) ? value[index] : value;
}
