import { z } from "zod";

/** Where spans of requests go. */
export const tracingSchema = z.strictObject({
  otlp_endpoint: z.url({ protocol: /^https?$/ }).describe(
    "URL of a collector, such as http://localhost:4318; over HTTP without a path, /v1/traces is asked",
  ),
  protocol: z.enum(["http/protobuf", "grpc"]).default("http/protobuf").describe(
    "Collectors take http/protobuf on port 4318 and grpc on 4317",
  ),
  headers: z.record(z.string().min(1), z.string()).default({}).describe("Sent with the spans, such as a key"),
  service_name: z.string().min(1).default("canopy").describe("The program's name in the traces"),
  sample_ratio: z.number().min(0).max(1).default(1).describe(
    "Share of traces that begin here and are recorded; where a client's request carries a trace, the client decides",
  ),
});

/** The settings of traces. */
export type TracingConfig = z.infer<typeof tracingSchema>;
