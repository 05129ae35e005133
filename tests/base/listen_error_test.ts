import assert from "node:assert/strict";
import { test } from "node:test";
import { listenError } from "../../base/listen_error.ts";

const failed = (code: string | undefined, message = "no") => Object.assign(new Error(message), { code });

test("an address that cannot be listened on is named, with the reason and what to do", () => {
  for (
    const [cause, said] of [
      [
        failed("EADDRINUSE"),
        "Cannot listen on h:80: the port is taken; choose another one, or stop what uses it",
      ],
      [
        failed("EACCES"),
        "Cannot listen on h:80: the system does not allow it; choose a port of 1024 or more",
      ],
      [
        failed("EADDRNOTAVAIL"),
        "Cannot listen on h:80: h is no address of this host; take 127.0.0.1, or 0.0.0.0 for all",
      ],
      [
        failed(undefined),
        "Cannot listen on h:80: h is no address of this host; take 127.0.0.1, or 0.0.0.0 for all",
      ],
      [failed("EMFILE", "too many files"), "Cannot listen on h:80: too many files"],
    ] as const
  ) {
    const error = listenError("h", 80, cause);
    assert.equal(error.message, said);
    assert.equal(error.cause, cause);
  }
});
