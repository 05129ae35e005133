import { CanopyError } from "../../../base/errors.ts";

/** Does `read`; a 400 that names a field is thrown on as one about that field of `place` ("": of the body). */
export function within<Value>(place: string, read: () => Value): Value {
  if (place === "") return read();
  try {
    return read();
  } catch (error) {
    if (!CanopyError.is(error) || error.status !== 400) throw error;
    const inner = error.param === undefined || error.param === "body" ? "" : error.param;
    const param = inner === "" ? place : `${place}.${inner}`;
    const message = inner !== "" && error.message.startsWith(`${inner} `)
      ? `${place}.${error.message}`
      : `${param}: ${error.message}`;
    throw new CanopyError(message, { code: error.code, status: 400, param, cause: error });
  }
}
