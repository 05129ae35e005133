import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { CanopyError, messageOf } from "../../../base/errors.ts";

/** Files with a certificate (and those between it and its authority) and its key, both PEM. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

/** The contents of `TlsFiles`. */
export interface TlsPair {
  readonly cert: string;
  readonly key: string;
}

/** Reads a certificate and its key. Throws `invalid_tls_file` (500), naming the file, for what no client could be served with. */
export function readTlsPair(files: TlsFiles): TlsPair {
  const [cert, key] = [readTlsFile(files.cert), readTlsFile(files.key)];
  const certificate = understood(files.cert, "a certificate", () => new X509Certificate(cert));
  const privateKey: KeyObject = understood(files.key, "a private key", () => createPrivateKey(key));
  if (!certificate.checkPrivateKey(privateKey)) {
    throw invalid(
      `${files.key} is not the key of the certificate in ${files.cert}: give the pair that belongs together`,
    );
  }
  return { cert, key };
}

/** Reads a file of certificates. Throws as `readTlsPair` does. */
export function readAuthorities(file: string): string {
  const text = readTlsFile(file);
  understood(file, "a certificate", () => new X509Certificate(text));
  return text;
}

function readTlsFile(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw invalid(`Cannot read ${path}: ${messageOf(error)}`);
  }
}

function understood<T>(file: string, what: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw invalid(`${file} does not hold ${what} in PEM: ${messageOf(error)}`);
  }
}

function invalid(message: string): CanopyError {
  return new CanopyError(message, { code: "invalid_tls_file", status: 500 });
}
