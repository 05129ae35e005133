/** llhttp as WebAssembly, as undici ships it: without types of its own. */
declare module "undici/lib/llhttp/llhttp_simd-wasm.js" {
  const binary: Uint8Array<ArrayBuffer>;
  export = binary;
}
