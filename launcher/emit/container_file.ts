import type { EmittedFile } from "./emitted.ts";

/** Where Canopy is in its image. */
export const PROGRAM_IN_CONTAINER = "/usr/local/bin/canopy";

/** Nothing but the libraries that the binary needs: no shell, no root. */
const BASE = "gcr.io/distroless/cc-debian12:nonroot";

/**
 * What is the same whatever the binary is called. The file system may be read-only; models in the program's own process
 * need a folder /tmp then that can be written.
 */
const SETTINGS = `EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s CMD ["${PROGRAM_IN_CONTAINER}", "health"]
ENTRYPOINT ["${PROGRAM_IN_CONTAINER}"]
CMD ["serve", "/etc/canopy/canopy.jsonc", "--host", "0.0.0.0", "--port", "8000"]
`;

/** The image of Canopy itself, for those who build one of one binary. */
export const DOCKERFILE: EmittedFile = {
  path: "Dockerfile",
  text:
    `# Builds the image of Canopy itself. Beside this file: its binary for Linux, named canopy (dist/canopy of
# "bun run compile", or one of a release).
FROM ${BASE}
COPY --chmod=0755 canopy ${PROGRAM_IN_CONTAINER}
${SETTINGS}`,
};

/** The binary of a platform in a release. */
export interface ReleasedBinary {
  readonly file: string;
  /** In Docker's word. */
  readonly arch: "amd64" | "arm64";
}

/** The image of Canopy itself of the binaries of a release: for the host's platform, or that of `--platform`. */
export function releaseDockerfile(binaries: readonly ReleasedBinary[]): EmittedFile {
  const stages = binaries.map(({ file, arch }) =>
    `FROM ${BASE} AS canopy-${arch}\nCOPY --chmod=0755 ${file} ${PROGRAM_IN_CONTAINER}\n`
  );
  return {
    path: DOCKERFILE.path,
    text: `# Builds the image of Canopy itself, of the binaries beside this file:
#   docker build -t canopy .
#   docker run -p 8000:8000 -v ./canopy.jsonc:/etc/canopy/canopy.jsonc:ro canopy
ARG TARGETARCH
${stages.join("\n")}
FROM canopy-\${TARGETARCH}
${SETTINGS}`,
  };
}

/** A check that the server on this port of its container lives, by Canopy itself: its image has no shell. */
export function healthCheck(port: number, scheme: "http" | "https" = "http"): readonly string[] {
  return ["CMD", PROGRAM_IN_CONTAINER, "health", "--url", `${scheme}://127.0.0.1:${port}`];
}
