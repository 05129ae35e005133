import { SystemClock } from "../../base/clock.ts";
import { holdPort } from "../ports.ts";

/** Of several runs of these tests on one host, who listens here has the ports that pages and users name. */
const TURN_PORT = 9_999;

/** Waits until no other test has the ports that pages and users name, such as 8000, and has them while `use` lasts. */
export async function withNamedPorts<T>(use: () => Promise<T>): Promise<T> {
  const clock = new SystemClock();
  let server = await holdPort(TURN_PORT);
  while (server === undefined) {
    await clock.sleep(100);
    server = await holdPort(TURN_PORT);
  }
  try {
    return await use();
  } finally {
    server.close();
  }
}
